"""Tables for people: on a terminal, or as Markdown for a README."""

from collections.abc import Sequence
from dataclasses import dataclass

from rich.console import Console
from rich.markup import escape
from rich.table import Table as RichTable


@dataclass(frozen=True, slots=True)
class Table:
    """A title, headings, and rows of text."""

    title: str
    headings: tuple[str, ...]
    rows: Sequence[Sequence[str]]

    def as_markdown(self) -> str:
        """Return it as a Markdown table; every column but the first is aligned to the right."""
        rule = ["---"] + ["---:"] * (len(self.headings) - 1)
        lines = [f"| {' | '.join(row)} |" for row in (self.headings, rule, *self.rows)]
        return "\n".join([f"**{self.title}**", "", *lines, ""])

    def print_to(self, console: Console) -> None:
        """Print it with lines around."""
        table = RichTable(title=escape(self.title), title_justify="left")
        for number, heading in enumerate(self.headings):
            table.add_column(escape(heading), justify="right" if number else "left")
        for row in self.rows:
            table.add_row(*(escape(cell) for cell in row))
        console.print(table)


def print_tables(tables: Sequence[Table], console: Console, *, markdown: bool) -> None:
    """Print ``tables`` at once: on ``console``, or as Markdown on standard output."""
    for table in tables:
        if markdown:
            print(table.as_markdown(), flush=True)
        else:
            table.print_to(console)
