"""What vLLM must do for the adapter, in this process or on a server."""

from collections.abc import AsyncGenerator, Sequence
from dataclasses import dataclass
from typing import NamedTuple, Protocol

from llm_engine.base import JsonSchema, Sampling


@dataclass(frozen=True, slots=True)
class Generation:
    """A request as vLLM understands it: tokens, and a number for its place in the queue (smaller goes first)."""

    request_id: str
    token_ids: Sequence[int]
    sampling: Sampling
    stop_ids: frozenset[int]
    schema: JsonSchema | None
    priority: int


class Piece(NamedTuple):
    """The answer so far. ``finish_reason`` is vLLM's word, None until the last."""

    text: str
    output_tokens: int
    cached_tokens: int
    """Of the prompt: found in the prefix cache."""
    finish_reason: str | None


class VllmBackend(Protocol):
    """One vLLM. Belongs to one event loop.

    Both calls raise ``StageError``: ``ENGINE_FAILED`` (retryable) when the engine is gone, ``BAD_SCHEMA`` or
    ``MODEL_FAILED`` when it refuses the request. Cancelling or closing them aborts the request inside vLLM.
    """

    @property
    def model(self) -> str:
        """Name of the weights."""
        ...

    @property
    def max_model_len(self) -> int:
        """Longest sequence, prompt and output together."""
        ...

    def stream(self, generation: Generation) -> AsyncGenerator[Piece, None]:
        """Yield the growing answer; the last piece has a finish reason."""
        ...

    async def next_token(self, token_ids: Sequence[int], candidates: Sequence[int], *, priority: int) -> list[float]:
        """Return log P(candidate | token_ids) for each of at most ``vllm_args.LOGPROBS`` candidates."""
        ...

    async def close(self) -> None:
        """Let go of vLLM. Safe to call twice."""
        ...
