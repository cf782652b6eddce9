"""What an engine raises without a type comes out as one that callers know."""

from collections.abc import AsyncIterator, Awaitable, Callable
from typing import TypeVar

from llm_engine.admission.streams import closing
from llm_engine.base import LLMOutput
from schemas.errors import ErrorCode, HalfsecondError, StageError

T = TypeVar("T")


async def typed(call: Callable[[], Awaitable[T]]) -> T:
    """Call and await ``call``; an untyped exception becomes ``ENGINE_FAILED``, retryable."""
    try:
        return await call()
    except HalfsecondError:
        raise
    except Exception as error:
        raise _engine_failed(error) from error


async def typed_stream(stream: AsyncIterator[LLMOutput]) -> AsyncIterator[LLMOutput]:
    """Yield what ``stream`` does; an untyped exception or an early end becomes ``ENGINE_FAILED``, retryable."""
    finished = False
    try:
        async with closing(stream) as outputs:
            async for output in outputs:
                finished = output.finish_reason is not None
                yield output
    except HalfsecondError:
        raise
    except Exception as error:
        raise _engine_failed(error) from error
    if not finished:
        raise StageError(ErrorCode.ENGINE_FAILED, "the stream ended without a finish reason", retryable=True)


def _engine_failed(error: Exception) -> StageError:
    return StageError(ErrorCode.ENGINE_FAILED, f"the engine broke: {type(error).__name__}: {error}", retryable=True)
