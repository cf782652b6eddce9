"""Files that no registry has as we need them: made here of what was fetched, always the same bytes."""

from pathlib import Path

from pipeline.weights.catalog import Conversion
from pipeline.weights.files import OnBytes


def convert(conversion: Conversion, origin: Path, target: Path, *, on_bytes: OnBytes) -> None:
    """Write to ``target`` what ``conversion`` makes of ``origin``; stopped, it leaves an unfinished ``target``.

    ``on_bytes`` hears the running count of the weights that are written.
    """
    match conversion.to:
        case "q8_0":
            from llm_engine.backends.requantise import requantise

            requantise(origin, target, on_bytes=on_bytes)
