"""The report's folder: built aside, then put in the place of the one before."""

from collections.abc import Sequence
from importlib import resources
from pathlib import Path
from tempfile import TemporaryDirectory
from types import TracebackType
from typing import Self

from pipeline.page.entry import PageEntry
from pipeline.page.files import clip_folder, copy_player
from pipeline.page.pictures import save_pictures
from pipeline.page.render import render_clip, render_index, templates
from pipeline.page.view import ClipView, view_clip

MARKER = "halfsecond-report.txt"
OWNED = (MARKER, "assets", "clips", "index.html")
"""What a report puts into its folder. Nothing else in there is ever touched. The marker goes first, so that a report
that was interrupted on its way in is still known for one; the index goes last, so that it never points nowhere."""

SHARED_ASSETS = ("page.css", "page.js", "icon.svg")


def write_report(target: Path, entries: Sequence[PageEntry]) -> Path:
    """Write a page for each of ``entries`` and an index into the folder ``target``; return the index page's path.

    Raises what ``Report`` raises.
    """
    with Report(target) as report:
        for entry in entries:
            report.add(entry)
        return report.finish()


class Report:
    """A report in the making. Frames are written as they come and not kept, so a run may be as long as the disk.

    ``target`` is made when it is missing. A report that lies there is replaced by ``finish`` and not before; other
    files beside it stay. Used as a context, a report that was not finished leaves no trace.
    Raises ``FileExistsError`` at once when something else holds a name that the report needs, and ``OSError`` when the
    folder can't be written to.
    """

    def __init__(self, target: Path) -> None:
        target.mkdir(parents=True, exist_ok=True)
        _refuse_foreign_files(target)
        self._target = target
        # Inside the target, so that the last step is a rename within one file system.
        self._aside = TemporaryDirectory(dir=target, prefix=".writing-", ignore_cleanup_errors=True)
        self._fresh = Path(self._aside.name, "fresh")
        self._clips: list[ClipView] = []
        (self._fresh / "clips").mkdir(parents=True)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._aside.cleanup()

    def add(self, entry: PageEntry) -> None:
        """Write the next clip's files. Its page follows in ``finish``, when its neighbours are known."""
        folder = self._fresh / "clips" / clip_folder(len(self._clips) + 1, entry.name)
        folder.mkdir()
        pictures = save_pictures(folder, entry.frames, result=entry.result)
        player = copy_player(entry.media_path, folder, media=entry.result.media)
        (folder / "result.json").write_text(entry.result.model_dump_json(), "utf-8")
        self._clips.append(view_clip(entry, folder.name, pictures=pictures, player=player))

    def finish(self) -> Path:
        """Write the pages, put everything in its place, and return the index page's path. The last call."""
        env = templates()
        for number, clip in enumerate(self._clips):
            page = self._fresh / "clips" / clip.folder / "index.html"
            page.write_text(render_clip(env, self._clips, number=number), "utf-8")
        (self._fresh / "index.html").write_text(render_index(env, self._clips), "utf-8")
        (self._fresh / MARKER).write_text("A halfsecond report. Writing one here again replaces it.\n", "utf-8")
        _copy_assets(self._fresh / "assets")
        _swap(self._target, fresh=self._fresh, stale=Path(self._aside.name, "stale"))
        self._aside.cleanup()
        return self._target / "index.html"


def _refuse_foreign_files(target: Path) -> None:
    if (target / MARKER).is_file():
        return
    taken = [name for name in OWNED if _is_there(target / name)]
    if taken:
        raise FileExistsError(f"{target} holds {taken[0]!r}, which is not from a report: choose another folder")


def _copy_assets(folder: Path) -> None:
    folder.mkdir()
    source = resources.files("pipeline.page") / "assets"
    for name in SHARED_ASSETS:
        (folder / name).write_bytes((source / name).read_bytes())


def _swap(target: Path, *, fresh: Path, stale: Path) -> None:
    stale.mkdir()
    for name in OWNED:
        if _is_there(target / name):
            (target / name).rename(stale / name)
        (fresh / name).rename(target / name)


def _is_there(path: Path) -> bool:
    return path.exists() or path.is_symlink()
