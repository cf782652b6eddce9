"""The embedded engine's own promises, over a toy model. What all engines promise is in tests/contract."""

import asyncio
import gc
from collections.abc import AsyncIterator, Callable
from typing import Any

import pytest

from llm_engine.base import Chat, LabelSet, LLMOutput, LLMRequest, Message, PriorityClass, Prompt, Sampling
from llm_engine.embedded import EmbeddedEngine
from llm_engine.prompting import load_prompts
from llm_engine.scheduler import SchedulerLimits
from schemas.deadline import Deadline
from schemas.errors import ErrorCode, StageError
from tests.unit.toy_model import ByteTokenizer, HashExecutor

NEVER = Deadline.never()
LABELS = LabelSet("meals", {"soup": ("hot soup",), "soup dumplings": ("filled dough",), "cake": ("sweet cake",)})


class NoConstraints:
    def for_schema(self, schema: Any) -> Any:
        raise StageError(ErrorCode.BAD_SCHEMA, "not in these tests")


@pytest.fixture
def executor() -> HashExecutor:
    return HashExecutor()


@pytest.fixture
async def engine(executor: HashExecutor) -> AsyncIterator[EmbeddedEngine]:
    engine = engine_on(executor)
    yield engine
    executor.gate.set()
    await engine.close()
    engine.check_integrity()


def engine_on(executor: HashExecutor, **limits: Any) -> EmbeddedEngine:
    return EmbeddedEngine(
        executor,
        ByteTokenizer(),
        prompts=load_prompts(),
        constraints=NoConstraints(),
        limits=SchedulerLimits(**({"max_seqs": 4, "step_tokens": 16} | limits)),
    )


def asking(text: str, *, max_tokens: int = 6, request_id: str = "r", **fields: Any) -> LLMRequest:
    sampling = Sampling(max_tokens=max_tokens)
    chat = Chat((Message("user", text),))
    return LLMRequest(request_id, chat, fields.pop("deadline", NEVER), sampling=sampling, **fields)


async def last(engine: EmbeddedEngine, request: LLMRequest) -> LLMOutput:
    return [output async for output in engine.generate(request)][-1]


async def until_true(condition: Callable[[], bool]) -> None:
    async with asyncio.timeout(5):
        while not condition():
            await asyncio.sleep(0)


def blocks_in_use(engine: EmbeddedEngine) -> int:
    return engine.stats().total_blocks - engine.stats().free_blocks


async def test_texts_do_not_depend_on_company_or_on_pre_emption() -> None:
    texts = [f"clip number {i} " * (1 + i % 4) for i in range(12)]
    roomy = engine_on(HashExecutor(num_blocks=400), max_seqs=1)
    alone = [(await last(roomy, asking(text, max_tokens=12))).text for text in texts]
    cramped = engine_on(HashExecutor(num_blocks=24), max_seqs=6)
    requests = [asking(t, max_tokens=12, priority=PriorityClass(i % 3)) for i, t in enumerate(reversed(texts))]
    together = await asyncio.gather(*(last(cramped, request) for request in requests))
    assert [output.text for output in reversed(together)] == alone
    assert cramped.stats().preempted > 0
    assert blocks_in_use(cramped) == 0


async def test_an_abort_frees_blocks_before_the_next_step(engine: EmbeddedEngine, executor: HashExecutor) -> None:
    executor.gate.clear()
    task = asyncio.create_task(last(engine, asking("a text of some length")))
    await until_true(lambda: blocks_in_use(engine) > 0)
    await engine.abort("r")
    assert blocks_in_use(engine) == 0
    executor.gate.set()
    assert (await task).finish_reason == "abort"
    assert len(executor.steps) <= 1


async def test_an_abort_storm_leaves_the_pool_whole(engine: EmbeddedEngine) -> None:
    tasks = [asyncio.create_task(last(engine, asking("storm " * 5, request_id=str(i)))) for i in range(200)]
    for i in range(0, 200, 3):
        await asyncio.sleep(0)
        await engine.abort(str(i))
        engine.check_integrity()
    for i in range(1, 200, 3):
        tasks[i].cancel()
    await asyncio.wait(tasks)
    engine.check_integrity()
    assert blocks_in_use(engine) == 0
    assert (engine.stats().running, engine.stats().waiting) == (0, 0)
    assert all(task.cancelled() or task.result().finish_reason in ("abort", "length") for task in tasks)


async def test_closing_a_stream_early_frees_its_blocks(engine: EmbeddedEngine) -> None:
    stream = engine.generate(asking("a text", max_tokens=90))
    await anext(stream)
    assert blocks_in_use(engine) > 0
    await stream.aclose()
    assert blocks_in_use(engine) == 0
    assert engine.stats().aborted == 1


async def test_a_failing_step_is_a_retryable_error_for_all_and_the_engine_recovers(
    engine: EmbeddedEngine, executor: HashExecutor
) -> None:
    executor.failure = RuntimeError("out of cheese")
    outcomes = await asyncio.gather(*(last(engine, asking("x" * i)) for i in range(1, 9)), return_exceptions=True)
    assert {(type(o), o.code, o.retryable) for o in outcomes} == {(StageError, ErrorCode.ENGINE_FAILED, True)}  # type: ignore[union-attr]
    assert not await engine.health()
    assert blocks_in_use(engine) == 0
    executor.failure = None
    assert await engine.health()
    assert engine.stats().failed == 9


async def test_a_deadline_while_waiting_for_a_slow_step_ends_in_time_with_the_text_so_far(
    engine: EmbeddedEngine, executor: HashExecutor
) -> None:
    stream = engine.generate(asking("some text", max_tokens=100, deadline=Deadline.after(0.2)))
    first = await anext(stream)
    executor.gate.clear()
    rest = [output async for output in stream]
    assert rest[-1].finish_reason == "deadline"
    assert rest[-1].text.startswith(first.text)
    assert blocks_in_use(engine) == 0


async def test_characters_of_several_tokens_are_shown_whole(executor: HashExecutor, engine: EmbeddedEngine) -> None:
    executor.script = "naïve 猫🐈".encode()
    outputs = [output.text async for output in engine.generate(asking("go", max_tokens=40))]
    assert outputs[-1] == "naïve 猫🐈"
    assert not any("\ufffd" in text for text in outputs)
    cut = await last(engine, asking("go", max_tokens=len("naïve 猫".encode()) + 2))
    assert (cut.text, cut.finish_reason) == ("naïve 猫", "length")


async def test_a_stop_token_ends_the_text(executor: HashExecutor, engine: EmbeddedEngine) -> None:
    executor.script = b"done"
    output = await last(engine, asking("go", max_tokens=40))
    assert (output.text, output.finish_reason) == ("done", "stop")


async def test_a_known_prefix_is_not_computed_again(engine: EmbeddedEngine, executor: HashExecutor) -> None:
    shared = "the same long beginning of every question "
    await last(engine, asking(shared + "one"))
    executor.steps.clear()
    await last(engine, asking(shared + "two"))
    assert executor.steps[0][0][0] >= len(shared) // 4 * 4
    assert engine.stats().prefix_hit_tokens >= len(shared) // 4 * 4


async def test_what_is_prefetched_needs_not_be_computed_when_the_question_comes() -> None:
    engine = engine_on(HashExecutor(num_blocks=1000, max_model_len=4000))
    known = Prompt("summary", "Sum up.", "a title that is known early")
    await engine.prefetch(known, deadline=NEVER)
    before = engine.stats().prefix_hit_tokens
    longer = Prompt("summary", "Sum up.", "a title that is known early\nand speech that comes late")
    await last(engine, LLMRequest("r", longer, NEVER, sampling=Sampling(max_tokens=1)))
    assert engine.stats().prefix_hit_tokens - before > len("a title that is known early")


async def test_prefetching_nothing_or_too_late_or_too_much_is_silent(engine: EmbeddedEngine) -> None:
    await engine.prefetch(Prompt("summary", "Sum up.", ""), deadline=NEVER)
    await engine.prefetch(Prompt("summary", "Sum up.", "late"), deadline=Deadline.after(-1))
    await engine.prefetch(Prompt("summary", "Sum up.", "long " * 500), deadline=NEVER)
    assert blocks_in_use(engine) == 0


async def test_trimming_keeps_what_was_warmed() -> None:
    executor = HashExecutor(num_blocks=400)
    engine = engine_on(executor)
    await engine.warm(LABELS)
    await last(engine, asking("something else that is cached for now"))
    held = blocks_in_use(engine)
    assert held > 0
    await engine.trim()
    assert len(executor.trimmed) == 400 - held
    engine.check_integrity()
    before = engine.stats().prefix_hit_tokens
    await engine.score(Prompt("meals", "", "broth"), LABELS, deadline=NEVER)
    assert engine.stats().prefix_hit_tokens > before


async def test_no_trimming_while_a_request_runs(engine: EmbeddedEngine, executor: HashExecutor) -> None:
    stream = engine.generate(asking("busy", max_tokens=50))
    await anext(stream)
    await engine.trim()
    assert executor.trimmed == []
    await stream.aclose()


async def test_warmed_prefixes_take_a_quarter_of_the_pool_at_most() -> None:
    engine = engine_on(HashExecutor(num_blocks=60))
    for number in range(5):
        await engine.warm(LabelSet(f"set {number}", {f"label {number} a": ("x",), f"label {number} b": ("y",)}))
    assert 0 < blocks_in_use(engine) <= 15


async def test_labels_that_begin_alike_are_told_apart_by_what_follows(executor: HashExecutor) -> None:
    engine = engine_on(HashExecutor(num_blocks=400))
    scores = await engine.score(Prompt("meals", "", "broth"), LABELS, deadline=NEVER)
    assert len(set(scores)) == 3


async def test_closing_ends_requests_and_refuses_new_ones(engine: EmbeddedEngine, executor: HashExecutor) -> None:
    executor.gate.clear()
    task = asyncio.create_task(last(engine, asking("going on", max_tokens=50)))
    await until_true(lambda: engine.stats().running == 1)
    closing = asyncio.create_task(engine.close())
    await asyncio.sleep(0)
    executor.gate.set()
    await closing
    assert (await task).finish_reason == "abort"
    with pytest.raises(StageError) as refused:
        await last(engine, asking("too late"))
    assert refused.value.code is ErrorCode.ENGINE_FAILED
    assert not await engine.health()
    assert executor.closed


async def test_more_than_fits_is_refused_by_name(engine: EmbeddedEngine) -> None:
    with pytest.raises(StageError, match="PROMPT_TOO_LONG") as refused:
        await last(engine, asking("x" * 500))
    assert not refused.value.retryable


async def test_an_idle_engine_leaves_no_task_behind(engine: EmbeddedEngine) -> None:
    await last(engine, asking("one"))
    await asyncio.sleep(0)
    gc.collect()
    assert asyncio.all_tasks() == {asyncio.current_task()}
