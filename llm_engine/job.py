"""What a sequence is computed for: text to generate, labels to weigh, or a prefix to have ready."""

import asyncio
from collections.abc import Sequence
from typing import Generic, TypeVar

import numpy as np
import numpy.typing as npt

from llm_engine.base import FinishReason, LLMRequest
from llm_engine.constraint import Constraint
from llm_engine.offload import until
from llm_engine.sampler import Sampler, log_softmax
from llm_engine.sequence import Sequence as Tokens
from llm_engine.tokenizer import Tokenizer
from schemas.deadline import Deadline
from schemas.errors import DeadlineExceeded, HalfsecondError

Row = npt.NDArray[np.float32]
"""Logits of one position, shape (vocabulary,)."""

Pick = TypeVar("Pick")


class Job(Generic[Pick]):
    """One sequence and who waits for it.

    ``pick`` runs outside the event loop, right after the step; everything else inside.
    """

    request_id = ""

    def __init__(self, tokens: Tokens) -> None:
        self.tokens = tokens
        self.finish_reason: FinishReason | None = None
        self._error: HalfsecondError | None = None
        self._news = asyncio.Event()

    @property
    def finished(self) -> bool:
        """Whether nothing more is to come."""
        return self.finish_reason is not None

    def pick(self, row: Row) -> Pick:
        """Return what follows from the logits after the last token. Mutates only what no other call uses."""
        raise NotImplementedError

    def take(self, pick: Pick) -> None:
        """Book what was picked; ends the job when that was the last step it needed."""
        raise NotImplementedError

    def end(self, reason: FinishReason) -> None:
        """Finish, unless that has happened."""
        self.finish_reason = self.finish_reason or reason
        self._news.set()

    def fail(self, error: HalfsecondError) -> None:
        """Finish with an error for who waits."""
        self._error = error
        self.end("abort")

    async def changed(self, deadline: Deadline) -> bool:
        """Wait until something is new or the job has ended. False when ``deadline`` comes first."""
        try:
            async with until(deadline):
                await self._news.wait()
        except DeadlineExceeded:
            return False
        self._news.clear()
        return True

    def raise_error(self) -> None:
        """Raise what the job failed with, if anything."""
        if self._error is not None:
            raise self._error


class TextJob(Job[int]):
    """Generates text, token by token. ``text`` never ends in half a character."""

    def __init__(
        self,
        request: LLMRequest,
        tokens: Tokens,
        *,
        tokenizer: Tokenizer,
        constraint: Constraint | None,
    ) -> None:
        super().__init__(tokens)
        self.request_id = request.request_id
        self.text = ""
        self._max_tokens = request.sampling.max_tokens
        self._sampler = Sampler(request.sampling, constraint)
        self._constraint = constraint
        self._tokenizer = tokenizer

    def pick(self, row: Row) -> int:
        """Return the next token, and move the constraint past it."""
        return self._sampler.choose(row)

    def take(self, pick: int) -> None:
        """Append the token, or stop at it."""
        if pick in self._tokenizer.stop_ids:
            self.end("stop")
            return
        self.tokens.token_ids.append(pick)
        self.text = self._tokenizer.decode(self.tokens.output).rstrip("\ufffd")
        if self._constraint is not None and self._constraint.finished:
            self.end("stop")
        elif len(self.tokens.output) >= self._max_tokens:
            self.end("length")
        self._news.set()


class ProbeJob(Job[list[float]]):
    """Weighs candidates for the next token."""

    def __init__(self, tokens: Tokens, candidates: Sequence[int]) -> None:
        super().__init__(tokens)
        self.log_probabilities: list[float] = []
        self._candidates = list(candidates)

    def pick(self, row: Row) -> list[float]:
        """Return the candidates' log-probabilities."""
        weighed: list[float] = log_softmax(row)[self._candidates].tolist()
        return weighed

    def take(self, pick: list[float]) -> None:
        """Keep them; that was all."""
        self.log_probabilities = pick
        self.end("stop")


class PrefillJob(Job[None]):
    """Only has keys and values computed. Its sequence wants no logits."""
