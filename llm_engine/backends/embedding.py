"""An engine without a language model: it compares meanings, and quotes instead of writing.

Labels are scored by kernel density on the sphere of sentence embeddings: a label is the cloud of its phrases, each with
a von Mises-Fisher kernel of concentration k, so that, every label being equally likely beforehand,

    P(label | text) = mean over its phrases of exp(k cos(text, phrase)), divided by the sum of that over all labels.
"""

import asyncio
from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from llm_engine.backends.vectors import Directions, TextEncoder, Vector, Vectors
from llm_engine.base import EngineStats, LabelSet, LLMOutput, LLMRequest, Prompt
from llm_engine.extractive import central_sentence, shortened
from llm_engine.offload import Offload, in_thread
from llm_engine.prose import evenly, plain, says_something, sentences
from llm_engine.untrusted import holds_command, without_commands
from schemas.deadline import Deadline
from schemas.errors import DeadlineExceeded, ErrorCode, HalfsecondError, StageError

CONCENTRATION = 25.0
"""k. From 10 to 40 the best topic hardly changes (82 to 86 % right on the development part of
benchmarks/text_truth.jsonl); harm is told apart best from 20 to 30, and 25 gives probabilities that can be believed."""

MAX_TEXT_CHARS = 600
"""Of one text to embed (5 ms). ``understanding.py`` sends passages of 160."""

MAX_SENTENCES = 24
"""Candidates for a summary; of more, evenly spaced ones are looked at."""

MAX_LABEL_SETS = 16
"""Kept ready. The project has two."""

HEALTH_S = 5.0
"""A sentence takes 2 ms; an engine that needs seconds is not healthy."""


@dataclass(frozen=True, slots=True)
class _LabelCloud:
    """A label set among the directions: label i has the ``sizes[i]`` rows of ``phrases`` from ``starts[i]`` on."""

    labels: LabelSet
    phrases: Directions
    starts: npt.NDArray[np.intp]
    sizes: npt.NDArray[np.intp]

    def log_probabilities(self, vector: Vector) -> list[float]:
        kernels = np.exp(CONCENTRATION * (self.phrases @ vector).astype(np.float64))
        density = np.add.reduceat(kernels, self.starts) / self.sizes
        scores: list[float] = np.log(density / density.sum()).tolist()
        return scores


class EmbeddingEngine:
    """Implements ``LLMEngine`` over a sentence encoder. Belongs to one event loop."""

    def __init__(self, encoder: TextEncoder, *, offload: Offload = in_thread) -> None:
        self._vectors = Vectors(encoder, offload=offload)
        self._clouds: dict[str, _LabelCloud] = {}
        self._aborts: dict[str, asyncio.Event] = {}
        self._requests = self._scored = self._aborted = 0

    @property
    def model(self) -> str:
        """Name and version of the weights."""
        return self._vectors.model

    async def warm(self, *label_sets: LabelSet) -> None:
        """Embed the phrases of ``label_sets`` (about 1 ms each), so that the first clip does not wait for it."""
        for labels in label_sets:
            await self._cloud(labels, deadline=Deadline.never())

    async def score(self, prompt: Prompt, labels: LabelSet, *, deadline: Deadline) -> Sequence[float]:
        """Return log-probabilities over ``labels.labels``, every label being equally likely beforehand.

        A text that says nothing (empty, only emoji or punctuation) leaves them equal. Raises ``DeadlineExceeded``.
        """
        if deadline.expired:
            raise DeadlineExceeded
        self._scored += 1
        text = without_commands(plain(prompt.data, max_chars=MAX_TEXT_CHARS))
        if not says_something(text):
            return [-float(np.log(len(labels.labels)))] * len(labels.labels)
        cloud = await self._cloud(labels, deadline=deadline)
        return cloud.log_probabilities(await self._vectors.of(text, deadline=deadline))

    async def generate(self, request: LLMRequest) -> AsyncIterator[LLMOutput]:
        """Quote the most central sentence of the data: the one task this engine can do is ``summary``.

        ``max_tokens`` counts words and Chinese characters. The text is empty when the data says nothing, when the
        request is aborted and at its deadline. Raises ``StageError`` for any other task.
        """
        if request.prompt.task != "summary":
            raise StageError(ErrorCode.MODEL_FAILED, f"an embedding engine cannot do the task {request.prompt.task!r}")
        self._requests += 1
        abort = self._aborts[request.request_id] = asyncio.Event()
        try:
            yield await self._quote(request, abort)
        finally:
            self._aborts.pop(request.request_id, None)

    async def abort(self, request_id: str) -> None:
        """Give up a request; unknown ids are ignored."""
        if event := self._aborts.get(request_id):
            self._aborted += 1
            event.set()

    async def health(self) -> bool:
        """Whether a sentence really gets a direction."""
        try:
            vectors = await self._vectors.all_of(["Is anybody there?"], deadline=Deadline.after(HEALTH_S))
        except (HalfsecondError, OSError, RuntimeError, ValueError):
            return False
        return bool(np.isclose(np.linalg.norm(vectors[0]), 1.0, atol=1e-3))

    def stats(self) -> EngineStats:
        """Return counters. Does not mutate."""
        return EngineStats(self._requests, self._scored, self._aborted)

    async def _quote(self, request: LLMRequest, abort: asyncio.Event) -> LLMOutput:
        work = asyncio.create_task(self._most_central(request.prompt.data, deadline=request.deadline))
        stop = asyncio.create_task(abort.wait())
        try:
            await asyncio.wait((work, stop), return_when=asyncio.FIRST_COMPLETED)
        finally:
            work.cancel()
            stop.cancel()
            await asyncio.wait((work, stop))
        if work.cancelled():
            return LLMOutput(request.request_id, "", "abort")
        if (sentence := work.result()) is None:
            return LLMOutput(request.request_id, "", "deadline")
        text, cut = shortened(sentence, max_tokens=request.sampling.max_tokens)
        return LLMOutput(request.request_id, text, "length" if cut else "stop")

    async def _most_central(self, data: str, *, deadline: Deadline) -> str | None:
        """Return a sentence of ``data``, empty when it has none that is not a command, None past the deadline."""
        candidates = evenly([s for s in sentences(plain(data)) if not holds_command(s)], MAX_SENTENCES)
        if deadline.expired:
            return None
        if len(candidates) < 2:
            return "".join(candidates)
        try:
            asked = (self._vectors.of(s[:MAX_TEXT_CHARS], deadline=deadline) for s in candidates)
            vectors = await asyncio.gather(*asked)
        except DeadlineExceeded:
            return None
        return candidates[central_sentence(candidates, np.stack(vectors))]

    async def _cloud(self, labels: LabelSet, *, deadline: Deadline) -> _LabelCloud:
        known = self._clouds.get(labels.name)
        if known is not None and known.labels == labels:
            return known
        phrases = [phrase for label in labels.labels for phrase in labels.descriptions[label]]
        sizes = np.array([len(labels.descriptions[label]) for label in labels.labels], dtype=np.intp)
        vectors = await self._vectors.all_of(phrases, deadline=deadline)
        cloud = self._clouds[labels.name] = _LabelCloud(labels, vectors, np.cumsum(sizes) - sizes, sizes)
        if len(self._clouds) > MAX_LABEL_SETS:
            self._clouds.pop(next(iter(self._clouds)))
        return cloud
