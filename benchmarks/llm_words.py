"""The embedded engine as a contestant that is asked in words, as the product asks it: for what its answers are."""

import time
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from benchmarks import llm_traffic as traffic
from benchmarks.llm_child import Host
from benchmarks.llm_embedded import Bench, open_bench
from benchmarks.memory import PROC
from llm_engine.backends.openvino_executor import Precision
from llm_engine.base import Chat, LLMRequest, Message, Prompt, Sampling
from llm_engine.labels import load_vocabulary
from schemas.deadline import Deadline

MOOD_TASK = "mood"


@contextmanager
def open_host(*, gguf: str, precision: Precision, threads: int, seats: int) -> Iterator[Host]:
    """Load ``gguf``."""
    with open_bench(gguf=gguf, precision=precision, threads=threads, seats=seats) as bench:
        asked = _Asked(bench)
        bench.runner.run(bench.engine.warm(asked.moods))
        yield Host(bench.about, {"answers": asked.answers, "traffic": asked.traffic, "labels": asked.labels})


class _Asked:
    """What the engine is asked to do."""

    def __init__(self, bench: Bench) -> None:
        self._bench = bench
        self.moods = load_vocabulary().moods

    def answers(self, *, questions: Sequence[str], new_tokens: int) -> list[list[int]]:
        """Ask all ``questions`` at once; return the greedy answers' texts as tokens."""
        requests = [_request(question, new_tokens) for question in questions]
        texts = self._bench.runner.run(traffic.texts(self._bench.engine, requests))
        return [self._bench.tokenizer.encode(text) for text in texts]

    def traffic(self, *, first: int, count: int) -> dict[str, Any]:
        """Serve ``count`` requests of all kinds, numbered from ``first``; return how they ended, and the memory then.

        Raises ``IntegrityError`` when a block is lost.
        """
        ends: Counter[str] = self._bench.runner.run(
            traffic.serve(self._bench.engine, self.moods, numbers=range(first, first + count))
        )
        self._bench.engine.check_integrity()
        return {"ends": ends, "rss_bytes": resident_bytes()}

    def labels(self, *, texts: Sequence[tuple[str, str | None]]) -> list[dict[str, float]]:
        """Score the mood of each text, one after another; return what each took."""
        return self._bench.runner.run(self._labels(texts))

    async def _labels(self, texts: Sequence[tuple[str, str | None]]) -> list[dict[str, float]]:
        return [await self._label(text, language) for text, language in texts]

    async def _label(self, text: str, language: str | None) -> dict[str, float]:
        engine = self._bench.engine
        before, began_s = engine.stats(), time.perf_counter()
        await engine.score(Prompt(MOOD_TASK, "", text, language), self.moods, deadline=Deadline.never())
        wall_ms, after = (time.perf_counter() - began_s) * 1e3, engine.stats()
        prefix_tokens = after.prefix_hit_tokens - before.prefix_hit_tokens
        new_tokens = after.prompt_tokens - before.prompt_tokens - prefix_tokens
        return {"wall_ms": wall_ms, "new_tokens": new_tokens, "prefix_tokens": prefix_tokens}


def resident_bytes() -> int:
    """Return what of this process is in memory now."""
    lines = (PROC / "self" / "status").read_text("utf-8").splitlines()
    return next(int(line.split()[1]) * 1024 for line in lines if line.startswith("VmRSS:"))


def _request(question: str, new_tokens: int) -> LLMRequest:
    return LLMRequest(
        request_id=question,
        prompt=Chat((Message("user", question),)),
        deadline=Deadline.never(),
        sampling=Sampling(max_tokens=new_tokens),
    )
