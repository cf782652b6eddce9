"""``halfsecond submit`` and ``halfsecond results``: the two ends of the topics, for people."""

import contextlib
import logging
import sys
from collections.abc import Callable, Iterator
from typing import Annotated

import typer
from rich.console import Console
from rich.text import Text

from pipeline.bus.errors import BusError
from pipeline.plain_text import plain
from pipeline.settings import Settings
from schemas.errors import ConfigurationError, MediaError
from schemas.job import Lane

EXIT_FAILED, EXIT_REFUSED, EXIT_INTERRUPTED = 1, 3, 130

Bootstrap = Annotated[
    str | None,
    typer.Option(metavar="HOST:PORT", help="The Kafka broker; several with commas. Default: the setting."),
]
AsJson = Annotated[bool, typer.Option("--json", help="One JSON object a line, for programs.")]


def add_kafka_commands(app: typer.Typer, load_settings: Callable[[], Settings]) -> None:
    """Add the commands to ``app``. ``load_settings`` is called when one of them runs."""

    @app.command(
        epilog="Exit status: 0 when all was stored (with --wait: answered complete or partial), 3 when a file cannot "
        "be read or some answer was something else or did not come, 1 when the broker cannot be used."
    )
    def submit(
        clips: Annotated[list[str], typer.Argument(metavar="CLIP...", help="Paths, or file:, http(s): or s3: URIs.")],
        *,
        lane: Annotated[Lane, typer.Option(help="realtime: within the budget; backfill: when there is time.")] = (
            Lane.REALTIME
        ),
        title: Annotated[str, typer.Option(help="What the clip is called; it is understood with it.")] = "",
        description: Annotated[str, typer.Option(help="Words that go with the clip.")] = "",
        budget_ms: Annotated[
            int | None,
            typer.Option(min=1, help="Answer within so many ms. Default: 500 in realtime, none in backfill."),
        ] = None,
        video_id: Annotated[
            str | None, typer.Option(help="Your own id, for a single clip. Default: its name and hash.")
        ] = None,
        bootstrap: Bootstrap = None,
        wait: Annotated[bool, typer.Option("--wait", help="Show the answers too.")] = False,
        timeout_s: Annotated[float, typer.Option(min=0.1, help="With --wait: give up after so long.")] = 60.0,
        as_json: AsJson = False,
    ) -> None:
        """Ask for clips to be analysed, by way of Kafka.

        [bold]halfsecond submit clip.mp4 --wait[/bold] sends a job and shows its answer. The clip itself is not sent:
        a worker fetches it from where it is, so a path must be one that the worker can read, below its media folders.
        """
        if video_id is not None and len(clips) > 1:
            raise typer.BadParameter("one id cannot stand for several clips", param_hint="--video-id")
        from pipeline.submit_command import SubmitOptions, submit_clips  # brings kafka-python: not for --help

        options = SubmitOptions(
            clips=tuple(clips),
            lane=lane,
            title=title,
            description=description,
            budget_ms=budget_ms,
            video_id=video_id,
            answers_within_s=timeout_s if wait else None,
            as_json=as_json,
        )
        with _exit_codes():
            if not submit_clips(options, settings=_settings(load_settings, bootstrap)):
                raise typer.Exit(EXIT_REFUSED)

    @app.command()
    def results(
        *,
        follow: Annotated[
            bool, typer.Option("--follow", "-f", help="Show answers as they come, until Ctrl-C.")
        ] = False,
        as_json: AsJson = False,
        bootstrap: Bootstrap = None,
    ) -> None:
        """Show the answers that lie on Kafka, one a line: the newest of each video, and dead letters.

        [bold]halfsecond results --follow[/bold] shows those to come instead. Both look on: no worker or other reader
        misses an answer because of them.
        """
        from pipeline.submit_command import show_answers  # brings kafka-python: not for --help

        with _exit_codes():
            show_answers(follow=follow, as_json=as_json, settings=_settings(load_settings, bootstrap))


def _settings(load_settings: Callable[[], Settings], bootstrap: str | None) -> Settings:
    settings = load_settings()
    return settings if bootstrap is None else settings.model_copy(update={"kafka_bootstrap": bootstrap})


@contextlib.contextmanager
def _exit_codes() -> Iterator[None]:
    """Turn what a user can mend into one line and an exit status."""
    if not logging.getLogger().isEnabledFor(logging.INFO):
        logging.getLogger("kafka").setLevel(logging.CRITICAL)  # it logs each try; the error at the end says it all
    try:
        yield
    except MediaError as error:
        _complain(error.message)
        raise typer.Exit(EXIT_REFUSED) from None
    except (BusError, ConfigurationError) as error:
        _complain(error.message)
        raise typer.Exit(EXIT_FAILED) from None
    except KeyboardInterrupt:
        sys.stdout.flush()
        raise typer.Exit(EXIT_INTERRUPTED) from None


def _complain(message: str) -> None:
    Console(stderr=True, soft_wrap=True).print(Text(f"halfsecond: {plain(message)}", style="red"))
