"""What the answers of a vLLM server, and the lack of them, mean to a caller."""

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager

import httpx2

from schemas.errors import ErrorCode, StageError

REFUSED = frozenset({httpx2.codes.BAD_REQUEST, httpx2.codes.UNPROCESSABLE_CONTENT})
"""It is the request that is bad: asking again, or elsewhere, helps nobody."""


async def checked(response: httpx2.Response, *, refusal: ErrorCode = ErrorCode.MODEL_FAILED) -> None:
    """Raise what an answer other than 200 means: a bad request is refused, all else may pass."""
    if response.status_code == httpx2.codes.OK:
        return
    await response.aread()
    said = f"the server answers {response.status_code}: {response.text[:300]}"
    if response.status_code in REFUSED:
        raise StageError(refusal, said)
    raise failed(said)


@asynccontextmanager
async def connection_errors() -> AsyncGenerator[None, None]:
    """Turn what the network does into ``ENGINE_FAILED``."""
    try:
        yield
    except httpx2.HTTPError as error:
        raise failed(f"the server cannot be reached: {type(error).__name__}: {error}") from error


def failed(message: str) -> StageError:
    """Return the error of an engine that may do better later, or elsewhere."""
    return StageError(ErrorCode.ENGINE_FAILED, message, retryable=True)
