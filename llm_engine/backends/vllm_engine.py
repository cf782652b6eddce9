"""vLLM in this process: its ``AsyncLLM``, whose core runs in a process of its own."""

import asyncio
import os
from collections.abc import AsyncGenerator, Callable, Mapping, Sequence
from contextlib import aclosing
from itertools import count
from typing import Any

from llm_engine.backends.vllm_adapter import VllmAdapter
from llm_engine.backends.vllm_args import VllmSettings, engine_arguments, environment, known
from llm_engine.backends.vllm_backend import Generation, Piece
from llm_engine.backends.vllm_priority import PriorityScale
from llm_engine.backends.vllm_tokenizer import FolderTokenizer
from llm_engine.base import JsonSchema
from llm_engine.prompting import PromptBook
from schemas.errors import ErrorCode, StageError

SamplingParams = Callable[..., Any]
"""vLLM's class of that name, or a stand-in."""


class AsyncLLMBackend:
    """A started ``AsyncLLM``. Belongs to the event loop that uses it first."""

    def __init__(
        self,
        engine: Any,
        *,
        model: str,
        max_model_len: int,
        sampling_params: SamplingParams,
        structured: Callable[[JsonSchema], Any],
        refusals: tuple[type[Exception], ...],
    ) -> None:
        """``structured`` makes vLLM's constraint of a schema; ``refusals`` are what it raises for a bad request."""
        self._engine = engine
        self._model = model
        self._max_model_len = max_model_len
        self._sampling_params = sampling_params
        self._structured = structured
        self._refusals = refusals
        self._numbers = count()
        self._closed = False

    @property
    def model(self) -> str:
        """Name of the weights."""
        return self._model

    @property
    def max_model_len(self) -> int:
        """Longest sequence, prompt and output together."""
        return self._max_model_len

    async def stream(self, generation: Generation) -> AsyncGenerator[Piece, None]:
        """Yield the growing answer: see ``VllmBackend.stream``."""
        sampling = generation.sampling
        try:
            params = self._sampling_params(
                max_tokens=sampling.max_tokens,
                temperature=sampling.temperature,
                top_p=sampling.top_p,
                seed=sampling.seed,
                stop_token_ids=sorted(generation.stop_ids),
                structured_outputs=None if generation.schema is None else self._structured(generation.schema),
            )
            outputs = self._outputs(generation.token_ids, params, generation.request_id, priority=generation.priority)
            async with aclosing(outputs):
                async for output in outputs:
                    answer = output.outputs[0]
                    yield Piece(answer.text, len(answer.token_ids), output.num_cached_tokens or 0, answer.finish_reason)
        except self._refusals as error:
            code = ErrorCode.MODEL_FAILED if generation.schema is None else ErrorCode.BAD_SCHEMA
            raise StageError(code, f"vLLM refuses the request: {error}") from error

    async def next_token(self, token_ids: Sequence[int], candidates: Sequence[int], *, priority: int) -> list[float]:
        """Return log P(candidate | token_ids) for each candidate: see ``VllmBackend.next_token``."""
        params = self._sampling_params(max_tokens=1, temperature=0.0, logprob_token_ids=list(candidates))
        try:
            outputs = self._outputs(token_ids, params, f"score-{next(self._numbers)}", priority=priority)
            async with aclosing(outputs):
                last = [output async for output in outputs][-1]
        except self._refusals as error:
            raise StageError(ErrorCode.MODEL_FAILED, f"vLLM refuses to score: {error}") from error
        try:
            found = last.outputs[0].logprobs[0]
            return [float(found[token].logprob) for token in candidates]
        except (KeyError, TypeError, IndexError) as error:
            raise StageError(ErrorCode.MODEL_FAILED, "this vLLM gives no log-probabilities of named tokens") from error

    async def close(self) -> None:
        """Stop vLLM and its processes. Safe to call twice."""
        if not self._closed:
            self._closed = True
            await asyncio.to_thread(self._engine.shutdown)

    async def _outputs(
        self, token_ids: Sequence[int], params: Any, request_id: str, *, priority: int
    ) -> AsyncGenerator[Any, None]:
        """Yield vLLM's outputs; whatever breaks in it that is no refusal is the engine's failure."""
        prompt = {"prompt_token_ids": list(token_ids)}
        try:
            async with aclosing(self._engine.generate(prompt, params, request_id, priority=priority)) as outputs:
                async for output in outputs:
                    yield output
        except self._refusals:
            raise
        except Exception as error:  # vLLM's own classes differ by version
            raise StageError(
                ErrorCode.ENGINE_FAILED, f"vLLM failed: {type(error).__name__}: {error}", retryable=True
            ) from error


async def start(settings: VllmSettings, *, prompts: PromptBook) -> VllmAdapter:
    """Start vLLM here (15 to 60 s) and return the engine.

    Sets the environment variables that vLLM needs unless they are set, since it reads nothing else. Its core is a
    process that imports the main module again: that one must be guarded by ``__name__``. Raises ``ConfigurationError``
    when the model's folder has no tokenizer, and ``StageError`` (``ENGINE_FAILED``) when vLLM does not start.
    """
    tokenizer = await asyncio.to_thread(FolderTokenizer, settings.model)
    _export(environment(settings))
    try:
        backend = await asyncio.to_thread(_backend, settings)
    except Exception as error:  # whatever vLLM and its core stumble over
        raise StageError(ErrorCode.ENGINE_FAILED, f"vLLM does not start: {error}", retryable=True) from error
    return VllmAdapter(backend, tokenizer=tokenizer, prompts=prompts, scale=PriorityScale.of())


def _export(variables: Mapping[str, str]) -> None:
    for name, value in variables.items():
        os.environ.setdefault(name, value)


def _backend(settings: VllmSettings) -> AsyncLLMBackend:
    from vllm import SamplingParams
    from vllm.engine.arg_utils import AsyncEngineArgs
    from vllm.sampling_params import StructuredOutputsParams
    from vllm.v1.engine.async_llm import AsyncLLM

    arguments = AsyncEngineArgs(**known(engine_arguments(settings), AsyncEngineArgs))
    return AsyncLLMBackend(
        AsyncLLM.from_engine_args(arguments),
        model=settings.served_name,
        max_model_len=settings.max_model_len,
        sampling_params=SamplingParams,
        structured=lambda schema: StructuredOutputsParams(json=dict(schema)),
        refusals=_refusals(),
    )


def _refusals() -> tuple[type[Exception], ...]:
    """Newer versions have a class for it, older ones raise ``ValueError``."""
    from vllm import exceptions

    newer = getattr(exceptions, "VLLMClientError", None)
    return (ValueError,) if newer is None else (ValueError, newer)
