"""What the adapter adds to a vLLM, with a vLLM that says one, two, three, four."""

import asyncio
import math
from typing import Any

import pytest

from llm_engine.backends.vllm_adapter import VllmAdapter
from llm_engine.backends.vllm_priority import PriorityScale
from llm_engine.base import Chat, LabelSet, LLMOutput, LLMRequest, Message, PriorityClass, Prompt, Sampling
from llm_engine.prompting import load_prompts
from schemas.deadline import Deadline
from schemas.errors import DeadlineExceeded, ErrorCode, StageError
from tests.unit.vllm_fakes import FakeBackend, LetterTokenizer

NEVER = Deadline.never()
LABELS = LabelSet("meals", {"soup": ("hot broth",), "cake": ("sugar",)})


def adapter(backend: FakeBackend) -> VllmAdapter:
    return VllmAdapter(backend, tokenizer=LetterTokenizer(), prompts=load_prompts(), scale=PriorityScale(0.0))


def asking(text: str = "We ate soup.", *, deadline: Deadline = NEVER, **changes: Any) -> LLMRequest:
    return LLMRequest("r", Chat((Message("user", text),)), deadline, **changes)


async def outputs(engine: VllmAdapter, request: LLMRequest) -> list[LLMOutput]:
    return [output async for output in engine.generate(request)]


async def begun(engine: VllmAdapter, backend: FakeBackend) -> "asyncio.Task[list[LLMOutput]]":
    """Return a request that has said two words and waits."""
    task = asyncio.create_task(outputs(engine, asking()))
    await asyncio.wait_for(backend.halfway.wait(), 5)
    return task


async def test_an_answer_grows_to_its_end():
    stream = await outputs(adapter(FakeBackend.flowing()), asking())
    assert stream[-1] == LLMOutput("r", "one two three four", "stop")
    assert all(output.finish_reason is None for output in stream[:-1])


async def test_class_and_deadline_become_the_place_in_the_queue():
    backend = FakeBackend.flowing()
    engine = adapter(backend)
    for priority, at_s in [(PriorityClass.REALTIME, 1e9), (PriorityClass.BACKFILL, 1e9), (PriorityClass.REALTIME, 2e9)]:
        await outputs(engine, asking(deadline=Deadline(at_s), priority=priority))
    first, backfill, later = [generation.priority for generation in backend.generations]
    assert first < later < backfill


async def test_the_deadline_ends_an_answer_with_the_text_so_far():
    backend = FakeBackend()
    engine = adapter(backend)
    last = (await outputs(engine, asking(deadline=Deadline.after(0.05))))[-1]
    assert last == LLMOutput("r", "one two", "deadline")
    assert (backend.given_up, engine.stats().expired, engine.stats().output_tokens) == (1, 1, 2)


async def test_a_passed_deadline_asks_nothing():
    backend = FakeBackend()
    assert await outputs(adapter(backend), asking(deadline=Deadline.after(-1))) == [LLMOutput("r", "", "deadline")]
    assert not backend.generations


async def test_an_abort_ends_the_stream_and_tells_vllm():
    backend = FakeBackend()
    engine = adapter(backend)
    task = await begun(engine, backend)
    await engine.abort("r")
    assert (await task)[-1] == LLMOutput("r", "one two", "abort")
    assert (backend.given_up, engine.stats().aborted) == (1, 1)


async def test_an_abort_before_the_first_step_ends_the_stream_too():
    engine = adapter(FakeBackend())
    stream = engine.generate(asking())
    first = asyncio.ensure_future(anext(stream))
    await asyncio.sleep(0)
    await engine.abort("r")
    assert await first == LLMOutput("r", "", "abort")


async def test_a_closed_stream_tells_vllm():
    backend = FakeBackend()
    engine = adapter(backend)
    stream = engine.generate(asking())
    await anext(stream)
    await stream.aclose()
    assert (backend.given_up, engine.stats().running, engine.stats().aborted) == (1, 0, 1)


async def test_a_cancelled_reader_tells_vllm():
    backend = FakeBackend()
    engine = adapter(backend)
    task = await begun(engine, backend)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert (backend.given_up, engine.stats().running) == (1, 0)


async def test_aborting_an_unknown_request_is_harmless():
    await adapter(FakeBackend()).abort("nobody")


async def test_a_slow_reader_gets_the_newest_text_and_the_end():
    engine = adapter(FakeBackend.flowing())
    stream = engine.generate(asking())
    texts = [(await anext(stream)).text]
    await asyncio.sleep(0.01)
    texts += [output.text async for output in stream]
    assert texts == ["one", "one two three four"]


@pytest.mark.parametrize("failure", [StageError(ErrorCode.ENGINE_FAILED, "gone", retryable=True), TypeError("a bug")])
async def test_a_failure_reaches_the_reader(failure):
    engine = adapter(FakeBackend(failure=failure))
    with pytest.raises(type(failure)):
        await outputs(engine, asking())
    assert (engine.stats().failed, engine.stats().running) == (1, 0)


@pytest.mark.parametrize("ending", ["error", "repetition", None])
async def test_an_end_that_is_none_of_ours_is_a_failure_of_the_engine(ending):
    with pytest.raises(StageError) as error:
        await outputs(adapter(FakeBackend.flowing(ending=ending)), asking())
    assert (error.value.code, error.value.retryable) == (ErrorCode.ENGINE_FAILED, True)


@pytest.mark.parametrize(
    ("request_", "code"),
    [
        (asking(""), ErrorCode.EMPTY_PROMPT),
        (asking("word " * 1000), ErrorCode.PROMPT_TOO_LONG),
        (asking(sampling=Sampling(max_tokens=1990)), ErrorCode.PROMPT_TOO_LONG),
        (asking(schema={"type": "nonsense"}), ErrorCode.BAD_SCHEMA),
    ],
)
async def test_what_can_be_known_to_fail_is_refused_before_it_is_sent(request_, code):
    backend = FakeBackend.flowing()
    with pytest.raises(StageError) as error:
        await outputs(adapter(backend), request_)
    assert error.value.code is code
    assert not backend.generations


async def test_closing_ends_everything_as_aborted():
    backend = FakeBackend()
    engine = adapter(backend)
    generating = await begun(engine, backend)
    scoring = asyncio.create_task(engine.score(Prompt("t", "?", "soup"), LABELS, deadline=NEVER))
    await asyncio.sleep(0.01)
    await engine.close()
    await engine.close()
    assert (await generating)[-1].finish_reason == "abort"
    with pytest.raises(StageError) as error:
        await scoring
    assert error.value.code is ErrorCode.ENGINE_FAILED
    with pytest.raises(StageError):
        await outputs(engine, asking())
    assert not await engine.health()


async def test_the_likelier_label_scores_higher():
    engine = adapter(FakeBackend.flowing(likes="s"))
    scores = await engine.score(Prompt("meals", "Which?", "broth with noodles"), LABELS, deadline=NEVER)
    assert sum(map(math.exp, scores)) == pytest.approx(1)
    assert engine.stats().scored == 1


async def test_scoring_ends_at_the_deadline():
    with pytest.raises(DeadlineExceeded):
        await adapter(FakeBackend()).score(Prompt("meals", "?", "soup"), LABELS, deadline=Deadline.after(0.02))


async def test_a_cancelled_question_stays_cancelled_though_the_engine_closes():
    engine = adapter(FakeBackend())
    task = asyncio.create_task(engine.score(Prompt("meals", "?", "soup"), LABELS, deadline=NEVER))
    await asyncio.sleep(0.01)
    task.cancel()
    await engine.close()
    with pytest.raises(asyncio.CancelledError):
        await task


async def test_health_is_a_token():
    assert await adapter(FakeBackend.flowing()).health()
    broken = FakeBackend(failure=StageError(ErrorCode.ENGINE_FAILED, "gone", retryable=True))
    assert not await adapter(broken).health()


async def test_reading_ahead_asks_for_one_token_and_never_fails():
    backend = FakeBackend.flowing()
    engine = adapter(backend)
    await engine.prefetch(Prompt("summary", "Sum up.", "We ate soup."), deadline=NEVER)
    await engine.prefetch(Prompt("summary", "Sum up.", ""), deadline=NEVER)
    await engine.prefetch(Prompt("summary", "Sum up.", "We ate soup."), deadline=Deadline.after(-1))
    assert [generation.sampling.max_tokens for generation in backend.generations] == [1]


async def test_many_requests_at_once_keep_apart():
    engine = adapter(FakeBackend.flowing())
    streams = await asyncio.gather(*(outputs(engine, asking()) for _ in range(64)))
    assert {stream[-1].text for stream in streams} == {"one two three four"}
    assert engine.stats()[:2] == (64, 0)
    assert (engine.stats().running, engine.stats().waiting) == (0, 0)
