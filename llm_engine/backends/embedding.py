"""An engine without a language model: it compares meanings, and quotes instead of writing.

Labels are scored by kernel density on the sphere of sentence embeddings: a label is the cloud of its phrases, each with
a von Mises-Fisher kernel of concentration k, so that, every label being equally likely beforehand,

    P(label | text) = mean over its phrases of exp(k cos(text, phrase)), divided by the sum of that over all labels.
"""

import asyncio
from collections import Counter
from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from llm_engine.backends.vectors import Directions, TextEncoder, Vector, Vectors
from llm_engine.base import Chat, EngineStats, LabelSet, LLMOutput, LLMRequest, PriorityClass, Prompt
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

MAX_PROMPT_CHARS = 12_000
"""Of one text to sum up: ten minutes of speech. Cutting it into sentences takes 5 ms of the event loop."""

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
    """Implements ``LLMEngine`` over a sentence encoder. Belongs to one event loop.

    It has no queue: texts asked for together share one call of the encoder, whatever their priority.
    """

    def __init__(self, encoder: TextEncoder, *, offload: Offload = in_thread) -> None:
        self._vectors = Vectors(encoder, offload=offload)
        self._clouds: dict[str, _LabelCloud] = {}
        self._aborts: dict[str, asyncio.Event] = {}
        self._counts: Counter[str] = Counter()
        self._closed = False

    @property
    def model(self) -> str:
        """Name and version of the weights."""
        return self._vectors.model

    async def warm(self, *label_sets: LabelSet) -> None:
        """Embed the phrases of ``label_sets`` (about 1 ms each), so that the first clip does not wait for it."""
        self._require_open()
        for labels in label_sets:
            with self._failures_named():
                await self._cloud(labels, deadline=Deadline.never())

    async def prefetch(self, prompt: Prompt, *, deadline: Deadline) -> None:
        """Embed the sentences that are known: the summary of the longer text needs them again."""
        with suppress(StageError):
            self._require_open()
            await self._most_central(_quotable(prompt), deadline=deadline)

    async def score(
        self,
        prompt: Prompt,
        labels: LabelSet,
        *,
        deadline: Deadline,
        priority: PriorityClass = PriorityClass.REALTIME,  # noqa: ARG002  (nothing waits here)
    ) -> Sequence[float]:
        """Return log-probabilities over ``labels.labels``, every label being equally likely beforehand.

        A text that says nothing (empty, only emoji or punctuation) leaves them equal. Raises ``DeadlineExceeded``.
        """
        self._require_open()
        if deadline.expired:
            raise DeadlineExceeded
        self._counts["scored"] += 1
        text = without_commands(plain(prompt.data[:MAX_TEXT_CHARS]))
        if not says_something(text):
            return [-float(np.log(len(labels.labels)))] * len(labels.labels)
        with self._failures_named():
            cloud = await self._cloud(labels, deadline=deadline)
            return cloud.log_probabilities(await self._vectors.of(text, deadline=deadline))

    async def generate(self, request: LLMRequest) -> AsyncIterator[LLMOutput]:
        """Quote the most central sentence of the data: the one task this engine can do is ``summary``.

        ``max_tokens`` counts words and Chinese characters. The text is empty when the request is aborted and at its
        deadline. Raises ``StageError``: ``MODEL_FAILED`` for any other task, for chats and for JSON.
        """
        self._require_open()
        candidates = _quotable(_summary_prompt(request))
        self._counts["requests"] += 1
        abort = self._aborts[request.request_id] = asyncio.Event()
        try:
            output = await self._quote(request, candidates, abort)
        except asyncio.CancelledError:
            self._counts["aborted"] += 1
            raise
        finally:
            self._aborts.pop(request.request_id, None)
        yield output

    async def abort(self, request_id: str) -> None:
        """Give up a request; unknown ids are ignored."""
        if event := self._aborts.get(request_id):
            event.set()

    async def health(self) -> bool:
        """Whether a sentence really gets a direction."""
        try:
            self._require_open()
            vectors = await self._vectors.all_of(["Is anybody there?"], deadline=Deadline.after(HEALTH_S))
        except (HalfsecondError, OSError, RuntimeError, ValueError):
            return False
        return bool(np.isclose(np.linalg.norm(vectors[0]), 1.0, atol=1e-3))

    async def trim(self) -> None:
        """Forget the texts of past requests (at most 1 MB); label sets stay."""
        self._vectors.forget()

    def stats(self) -> EngineStats:
        """Return counters. Does not mutate."""
        return EngineStats(**self._counts, running=len(self._aborts))

    async def close(self) -> None:
        """End all requests and forget everything; the encoder belongs to who made it. Safe to call twice."""
        self._closed = True
        for event in self._aborts.values():
            event.set()
        self._clouds.clear()
        self._vectors.forget()

    async def _quote(self, request: LLMRequest, candidates: Sequence[str], abort: asyncio.Event) -> LLMOutput:
        work = asyncio.create_task(self._most_central(candidates, deadline=request.deadline))
        stop = asyncio.create_task(abort.wait())
        try:
            await asyncio.wait((work, stop), return_when=asyncio.FIRST_COMPLETED)
        finally:
            work.cancel()
            stop.cancel()
            await asyncio.wait((work, stop))
        if work.cancelled():
            self._counts["aborted"] += 1
            return LLMOutput(request.request_id, "", "abort")
        try:
            text, cut = shortened(work.result(), max_tokens=request.sampling.max_tokens)
        except DeadlineExceeded:
            self._counts["expired"] += 1
            return LLMOutput(request.request_id, "", "deadline")
        return LLMOutput(request.request_id, text, "length" if cut else "stop")

    async def _most_central(self, candidates: Sequence[str], *, deadline: Deadline) -> str:
        """Return the one of ``candidates`` nearest to the meaning of all. Raises ``DeadlineExceeded``."""
        if deadline.expired:
            raise DeadlineExceeded
        if len(candidates) == 1:
            return candidates[0]
        asked = (self._vectors.of(s[:MAX_TEXT_CHARS], deadline=deadline) for s in candidates)
        with self._failures_named():
            vectors = await asyncio.gather(*asked)
        return candidates[central_sentence(candidates, np.stack(vectors))]

    def _require_open(self) -> None:
        if self._closed:
            raise StageError(ErrorCode.ENGINE_FAILED, "the engine is closed", retryable=True)

    @contextmanager
    def _failures_named(self) -> Iterator[None]:
        """Turn what the encoder raises into ``ENGINE_FAILED``."""
        try:
            yield
        except DeadlineExceeded:
            raise
        except Exception as error:
            self._counts["failed"] += 1
            raise StageError(
                ErrorCode.ENGINE_FAILED, f"the sentence encoder failed: {error}", retryable=True
            ) from error

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


def _summary_prompt(request: LLMRequest) -> Prompt:
    """Return the prompt of a summary in words; refuse everything else."""
    prompt = request.prompt
    if isinstance(prompt, Chat):
        raise StageError(ErrorCode.MODEL_FAILED, "an embedding engine cannot chat")
    if prompt.task != "summary":
        raise StageError(ErrorCode.MODEL_FAILED, f"an embedding engine cannot do the task {prompt.task!r}")
    if request.schema is not None:
        raise StageError(ErrorCode.MODEL_FAILED, "an embedding engine cannot write JSON")
    return prompt


def _quotable(prompt: Prompt) -> tuple[str, ...]:
    """Return the sentences of the data that hold no command (all hold one: what is left of them without it).

    Of very many, evenly spaced ones.
    """
    if len(prompt.data) > MAX_PROMPT_CHARS:
        raise StageError(ErrorCode.PROMPT_TOO_LONG, f"{len(prompt.data)} characters, {MAX_PROMPT_CHARS} at most")
    text = plain(prompt.data, max_chars=MAX_PROMPT_CHARS)
    innocent = [sentence for sentence in sentences(text) if not holds_command(sentence)]
    found = evenly(innocent or sentences(without_commands(text)), MAX_SENTENCES)
    if not found:
        raise StageError(ErrorCode.EMPTY_PROMPT, f"the prompt of the task {prompt.task!r} says nothing")
    return found
