"""An analyzer of one's own over models that are shared: what it learns stays with it, and its units are timed."""

import time
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from typing import Any, cast

from llm_engine.base import LLMEngine
from pipeline.analyze import Analyzer
from pipeline.forecast import PRIORS_MS
from pipeline.job_run import Workshop
from pipeline.latency import LatencyBook
from pipeline.toolbox import Toolbox

OFFLOADED = ("text", "llm")
"""What text engines book themselves, in the book that they were made with."""

LANGUAGE, PIECE, MODEL = "language", "transcribe", "llm"
LOOKING = ("detect", "ocr", "scene", "unsafe")


@dataclass(frozen=True, slots=True)
class Unit:
    """When one call ran, in seconds of the performance counter."""

    name: str
    began_s: float
    ended_s: float

    @property
    def ms(self) -> float:
        """How long it took."""
        return (self.ended_s - self.began_s) * 1e3


@dataclass(frozen=True, slots=True)
class Watched:
    """An analyzer with a latency book of its own. ``units``: calls that have ended, added to from any thread."""

    analyzer: Analyzer
    units: list[Unit]
    shared: LatencyBook = field(repr=False)

    @contextmanager
    def at_work(self) -> Iterator[None]:
        """Forget all units, and let text engines teach nobody else: contestants take turns. Mutates both books."""
        own = self.analyzer.workshop.latencies
        self.units.clear()
        _hand_over(own, self.shared)
        try:
            yield
        finally:
            _hand_over(self.shared, own)


def watch(analyzer: Analyzer) -> Watched:
    """Return ``analyzer`` again, with what it has learnt so far; from here on each learns for itself."""
    workshop, units = analyzer.workshop, list[Unit]()
    own = replace(workshop, tools=_watched_tools(workshop, units), latencies=fresh_book(workshop.latencies))
    return Watched(Analyzer(own, clock=analyzer.clock), units, workshop.latencies)


def fresh_book(like: LatencyBook) -> LatencyBook:
    """Return a book that knows what ``like`` knows now."""
    book = LatencyBook(PRIORS_MS)
    book.restore(like.kept())
    return book


def chain_ms(units: list[Unit], *, before_ms: float, after_ms: float) -> float:
    """Return what had to happen one after another: ``before_ms`` (sound, voice), words, ``after_ms`` (meaning).

    Of the pieces of speech only the longest counts, of the language model's work what began after the last of them.
    """
    pieces = [unit for unit in units if unit.name == PIECE]
    finding_ms = sum(unit.ms for unit in units if unit.name == LANGUAGE)
    said_s = max((unit.ended_s for unit in pieces), default=0.0)
    closely = [unit for unit in units if unit.name == MODEL and unit.began_s >= said_s]
    return before_ms + finding_ms + max((unit.ms for unit in pieces), default=0.0) + after_ms + _covered_ms(closely)


def _covered_ms(units: list[Unit]) -> float:
    """Return for how long at least one of ``units`` ran."""
    covered_s, until_s = 0.0, float("-inf")
    for unit in sorted(units, key=lambda unit: unit.began_s):
        covered_s += max(0.0, unit.ended_s - max(unit.began_s, until_s))
        until_s = max(until_s, unit.ended_s)
    return covered_s * 1e3


def _hand_over(source: LatencyBook, target: LatencyBook) -> None:
    kept = source.kept()
    target.restore({key: kept[key] for key in OFFLOADED if key in kept})


def _watched_tools(workshop: Workshop, units: list[Unit]) -> Toolbox:
    tools = workshop.tools
    watched: dict[str, Any] = {name: _TimedCalls(getattr(tools, name), {"run": name}, units) for name in LOOKING}
    listening = {"run": PIECE, "language": LANGUAGE, "windows": LANGUAGE}
    watched["transcribe"] = _TimedCalls(tools.transcribe, listening, units)
    if tools.reader.llm is not None:
        watched["reader"] = replace(tools.reader, llm=cast("LLMEngine", _TimedModel(tools.reader.llm, {}, units)))
    return replace(tools, **watched)


class _TimedCalls:
    """Passes everything on to ``inner``, and notes when its methods in ``names`` ran, under the names there."""

    def __init__(self, inner: Any, names: dict[str, str], units: list[Unit]) -> None:
        self._inner = inner
        self._names = names
        self._units = units

    def __getattr__(self, attribute: str) -> Any:
        found = getattr(self._inner, attribute)
        return self._timed(found, self._names[attribute]) if attribute in self._names else found

    def _timed(self, call: Callable[..., Any], name: str) -> Callable[..., Any]:
        def run(*args: Any, **options: Any) -> Any:
            began_s = time.perf_counter()
            found = call(*args, **options)
            self._units.append(Unit(name, began_s, time.perf_counter()))
            return found

        return run


class _TimedModel(_TimedCalls):
    """A language model whose answers are timed from the question on."""

    async def score(self, *args: Any, **options: Any) -> Any:
        """Score labels."""
        with self._noted():
            return await self._inner.score(*args, **options)

    async def generate(self, *args: Any, **options: Any) -> AsyncIterator[Any]:
        """Generate text."""
        with self._noted():
            async for output in self._inner.generate(*args, **options):
                yield output

    @contextmanager
    def _noted(self) -> Iterator[None]:
        began_s = time.perf_counter()
        try:
            yield
        finally:
            self._units.append(Unit(MODEL, began_s, time.perf_counter()))
