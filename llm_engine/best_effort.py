"""For questions that are worth asking, and not worth failing or waiting for."""

import logging
from collections.abc import Awaitable
from typing import TypeVar

from schemas.errors import DeadlineExceeded, Overloaded, StageError

T = TypeVar("T")

log = logging.getLogger(__name__)


async def best_effort(answer: Awaitable[T]) -> T | None:
    """Return ``answer``, or None when it does not come in time or the engine cannot give it."""
    try:
        return await answer
    except (DeadlineExceeded, Overloaded) as late:
        log.debug("done without: %s", late)
    except StageError as error:
        log.warning("done without: %s", error)
    return None
