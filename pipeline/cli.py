"""The ``halfsecond`` command."""

import json
import logging
import os
import sys
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console

from pipeline.bus.errors import BusError
from pipeline.contract import documents, json_schemas
from pipeline.kafka_cli import add_kafka_commands
from pipeline.models_cli import models_app
from pipeline.plans import plan_names
from pipeline.settings import load_settings
from pipeline.version import PIPELINE_VERSION
from schemas.errors import ConfigurationError

EXIT_REFUSED = 3
EXIT_FAILED = 1
EXIT_INTERRUPTED = 130

app = typer.Typer(
    name="halfsecond",
    help="Understand a video clip within half a second: what is seen, said, written and meant.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    rich_markup_mode="rich",
    context_settings={"help_option_names": ["-h", "--help"]},
)
app.add_typer(models_app(load_settings), name="models")


def _version(wanted: bool) -> None:  # noqa: FBT001  (typer's callback signature)
    if wanted:
        typer.echo(f"halfsecond {PIPELINE_VERSION}")
        raise typer.Exit


def _known_plan(name: str) -> str:
    if name not in ("auto", *plan_names()):
        raise typer.BadParameter(f"choose auto, {', '.join(plan_names())}")
    return name


@app.callback()
def halfsecond(
    *,
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Show the version.")
    ] = False,
    verbose: Annotated[bool, typer.Option("--verbose", "-v", help="Log what happens, on standard error.")] = False,
) -> None:
    """Take the options that all commands share."""
    del version
    logging.basicConfig(
        level=logging.INFO if verbose else logging.ERROR,
        stream=sys.stderr,
        format="%(asctime)s %(levelname)s %(name)s: %(message)s",
    )


@app.command(
    epilog="Exit status: 0 when every input was answered complete or partial, 3 when some input was refused "
    "(its line says why), 1 when nothing could be analysed, 2 for wrong usage."
)
def analyze(
    paths: Annotated[list[Path], typer.Argument(metavar="PATH...", help="Video or sound files.")],
    *,
    as_json: Annotated[bool, typer.Option("--json", help="One JSON object a line, in input order.")] = False,
    html: Annotated[Path | None, typer.Option("--html", metavar="DIR", help="Write web pages into DIR.")] = None,
    budget_ms: Annotated[
        int | None,
        typer.Option(min=1, help="Answer within so many milliseconds with what is ready then. Default: no limit."),
    ] = None,
    llm: Annotated[
        bool, typer.Option("--llm/--no-llm", help="Understand the words (topics, summary, keywords).")
    ] = True,
    plan: Annotated[
        str, typer.Option(metavar="PLAN", callback=_known_plan, help=f"auto, or one of: {', '.join(plan_names())}.")
    ] = "auto",
) -> None:
    """Analyse clips and show one result for each, in input order.

    [bold]halfsecond analyze clip.mp4[/bold] shows it here; add [bold]--json[/bold] for programs or
    [bold]--html out[/bold] for web pages with frames, transcript and timings.
    """
    if as_json and html is not None:
        raise typer.BadParameter("--json and --html exclude each other", param_hint="--json / --html")
    from pipeline.analyze_command import AnalyzeOptions, analyze_paths  # brings every model runtime: not for --help

    options = AnalyzeOptions(paths=tuple(paths), as_json=as_json, html=html, budget_ms=budget_ms, llm=llm, plan=plan)
    try:
        answered = analyze_paths(options, settings=load_settings())
    except KeyboardInterrupt:
        raise typer.Exit(EXIT_INTERRUPTED) from None
    if not answered:
        raise typer.Exit(EXIT_REFUSED)


@app.command()
def schema(
    name: Annotated[
        str, typer.Argument(help="job, result, dead-letter or sla, or asyncapi; without it all but that.")
    ] = "",
) -> None:
    """Print the JSON Schema of what goes in and what comes out, or the topics as an AsyncAPI document."""
    if name == "asyncapi":
        typer.echo(documents()["asyncapi.yaml"], nl=False)
        return
    schemas = json_schemas()
    if name and name not in schemas:
        raise typer.BadParameter(f"choose {', '.join(schemas)} or asyncapi", param_hint="NAME")
    typer.echo(json.dumps(schemas[name] if name else schemas, indent=2, ensure_ascii=False))


@app.command(epilog="SIGTERM and Ctrl-C drain: what is under way is answered, the rest is left for other workers.")
def worker(
    *,
    exactly_once: Annotated[
        bool | None,
        typer.Option(
            "--exactly-once/--at-least-once",
            help="Answers and offsets in transactions, or idempotent answers. Default: the setting, at least once.",
        ),
    ] = None,
) -> None:
    """Answer jobs from Kafka, each within its budget, until told to stop.

    HALFSECOND_... variables set everything (pipeline/settings.py): HALFSECOND_KAFKA_BOOTSTRAP, where clips may lie
    (HALFSECOND_FETCH_ROOTS, HALFSECOND_S3_BUCKETS), HALFSECOND_WORKER_PLACES. Health and metrics are on
    HALFSECOND_HTTP_PORT.
    """
    from pipeline.worker_command import run_worker  # brings every model runtime: not for --help

    logging.getLogger().setLevel(logging.INFO)
    logging.getLogger("kafka").setLevel(logging.WARNING)  # it tells of every connection
    settings = load_settings()
    run_worker(settings if exactly_once is None else settings.model_copy(update={"exactly_once": exactly_once}))


add_kafka_commands(app, load_settings)


def main() -> None:
    """Run the command; errors that the user can mend are one line, not a traceback."""
    try:
        app()
    except (BusError, ConfigurationError) as error:
        Console(stderr=True).print(f"halfsecond: {error.message}", style="red", markup=False, highlight=False)
        sys.exit(EXIT_FAILED)
    except BrokenPipeError:
        # Whoever read our output has seen enough. Python would complain again when it flushes at exit.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
