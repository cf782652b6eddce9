"""For questions that are worth asking, and not worth failing or waiting for."""

import asyncio
import logging
from collections.abc import Awaitable
from typing import TypeVar

from schemas.deadline import Deadline
from schemas.errors import DeadlineExceeded, Overloaded, StageError

T = TypeVar("T")

log = logging.getLogger(__name__)


async def best_effort(answer: Awaitable[T], *, deadline: Deadline) -> T | None:
    """Return ``answer``, or None when it does not come by ``deadline`` or the engine cannot give it.

    An engine that knows the deadline gives up then, but only once the step under way has ended: that is not waited for.
    """
    try:
        async with asyncio.timeout(None if deadline.at_s == float("inf") else deadline.remaining()):
            return await answer
    except (DeadlineExceeded, Overloaded, TimeoutError) as late:
        log.debug("done without: %s", late)
    except StageError as error:
        log.warning("done without: %s", error)
    return None
