"""The engines under contract: each starts once, for all test files."""

from collections.abc import AsyncIterator

import pytest
import pytest_asyncio

from llm_engine.base import LLMEngine
from tests.contract.llm_engines import CASES, EngineCase, Subject


@pytest.fixture(scope="session", params=CASES, ids=[case.name for case in CASES])
def engine_case(request: pytest.FixtureRequest) -> EngineCase:
    """One row of the table."""
    case: EngineCase = request.param
    return case


@pytest_asyncio.fixture(scope="session", loop_scope="session")
async def subject(engine_case: EngineCase) -> AsyncIterator[Subject]:
    """An engine that all tests share: leave it as idle as you found it."""
    async with engine_case.running() as subject:
        yield subject


@pytest.fixture(scope="session")
def engine(subject: Subject) -> LLMEngine:
    return subject.engine
