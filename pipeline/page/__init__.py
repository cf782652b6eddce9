"""The web page of a run: one page a clip and an index, in one folder that works offline and can be moved."""

from pipeline.page.entry import PageEntry
from pipeline.page.report import Report, write_report

__all__ = ["PageEntry", "Report", "write_report"]
