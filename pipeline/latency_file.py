"""Keeps what stages cost between two runs, so that the first clip of the second start is planned right.

One file a machine: costs are those of a processor, a number of cores, an instruction set and versions of the runtimes.
"""

import hashlib
import platform
from collections.abc import Mapping
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from tempfile import NamedTemporaryFile

from pydantic import TypeAdapter, ValidationError

from pipeline.latency import KeptEstimate, LatencyBook
from pipeline.version import PIPELINE_VERSION

RUNTIMES = ("ctranslate2", "onnxruntime", "openvino", "numpy")

_DOCUMENT: TypeAdapter[dict[str, KeptEstimate]] = TypeAdapter(dict[str, KeptEstimate])


class LatencyFile:
    """The estimates of this machine in ``folder``. Never fails: what cannot be read or written is done without."""

    def __init__(self, folder: Path, *, cores: int, held_to: Mapping[str, str]) -> None:
        """``held_to``: what keeps runtimes from using all of the processor."""
        facts = [PIPELINE_VERSION, _processor(), str(cores), *map(_version, RUNTIMES), repr(sorted(held_to.items()))]
        self._path = folder / f"{hashlib.sha256('|'.join(facts).encode()).hexdigest()[:16]}.json"

    def load_into(self, book: LatencyBook) -> bool:
        """Give ``book`` what was kept; return whether there was anything."""
        try:
            kept = _DOCUMENT.validate_json(self._path.read_bytes())
        except (OSError, ValidationError):
            return False
        sane = {key: estimate for key, estimate in kept.items() if _is_sane(estimate)}
        book.restore(sane)
        return bool(sane)

    def save(self, book: LatencyBook) -> None:
        """Keep what ``book`` knows, whole or not at all."""
        try:
            self._path.parent.mkdir(parents=True, exist_ok=True)
            with NamedTemporaryFile(dir=self._path.parent, prefix=".", suffix=".part", delete=False) as file:
                file.write(_DOCUMENT.dump_json(book.kept()))
            Path(file.name).replace(self._path)
        except OSError:
            return


def _is_sane(estimate: KeptEstimate) -> bool:
    numbers = (estimate.fixed_ms, estimate.rate_ms, *estimate.factors)
    return all(0 <= number < 1e6 for number in numbers)


def _processor() -> str:
    try:
        facts = Path("/proc/cpuinfo").read_text("utf-8", "replace").split("\n\n", 1)[0]
    except OSError:
        return platform.processor()
    return "\n".join(line for line in facts.splitlines() if line.startswith(("model name", "flags", "Features")))


def _version(package: str) -> str:
    try:
        return version(package)
    except PackageNotFoundError:
        return ""
