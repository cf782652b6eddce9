"""The in-process backend over an ``AsyncLLM`` that is none."""

import math
from types import SimpleNamespace
from typing import Any

import pytest

from llm_engine.backends.vllm_backend import Generation
from llm_engine.backends.vllm_engine import AsyncLLMBackend
from llm_engine.base import Sampling
from schemas.errors import ErrorCode, StageError
from tests.unit.vllm_fakes import FakeAsyncLLM, Refusal, output


def backend(engine: FakeAsyncLLM) -> AsyncLLMBackend:
    return AsyncLLMBackend(
        engine,
        model="m",
        max_model_len=100,
        sampling_params=SimpleNamespace,
        structured=lambda schema: ("json", schema),
        refusals=(ValueError, Refusal),
    )


def generation(**changes: Any) -> Generation:
    fields: dict[str, Any] = {
        "request_id": "r",
        "token_ids": [1, 2],
        "sampling": Sampling(9, temperature=0.5, top_p=0.9, seed=4),
        "stop_ids": frozenset({3, 2}),
        "schema": None,
        "priority": 77,
    }
    return Generation(**(fields | changes))


def saying(*steps: Any) -> FakeAsyncLLM:
    return FakeAsyncLLM(lambda params: list(steps))


async def test_the_answer_comes_as_vllm_gives_it():
    engine = saying(output("a"), output("ab", "stop", tokens=2))
    pieces = [piece async for piece in backend(engine).stream(generation())]
    assert pieces == [("a", 1, 0, None), ("ab", 2, 0, "stop")]
    (call,) = engine.calls
    assert (call.prompt, call.request_id, call.priority) == ({"prompt_token_ids": [1, 2]}, "r", 77)
    assert vars(call.params) == {
        "max_tokens": 9,
        "temperature": 0.5,
        "top_p": 0.9,
        "seed": 4,
        "stop_token_ids": [2, 3],
        "structured_outputs": None,
    }


async def test_a_schema_becomes_vllms_constraint():
    engine = saying(output("{}", "stop"))
    assert [piece async for piece in backend(engine).stream(generation(schema={"type": "object"}))]
    assert engine.calls[0].params.structured_outputs == ("json", {"type": "object"})


async def test_closing_the_stream_aborts_inside_vllm():
    engine = saying(output("a"), output("ab"))
    stream = backend(engine).stream(generation())
    await anext(stream)
    await stream.aclose()
    assert engine.aborted == 1


@pytest.mark.parametrize(
    ("schema", "raised", "code", "retryable"),
    [
        (None, Refusal("no"), ErrorCode.MODEL_FAILED, False),
        ({"type": "object"}, ValueError("no"), ErrorCode.BAD_SCHEMA, False),
        (None, RuntimeError("the core is dead"), ErrorCode.ENGINE_FAILED, True),
        ({"type": "object"}, RuntimeError("the core is dead"), ErrorCode.ENGINE_FAILED, True),
    ],
)
async def test_refusals_and_failures_are_told_apart(schema, raised, code, retryable):
    with pytest.raises(StageError) as error:
        assert [piece async for piece in backend(saying(output("a"), raised)).stream(generation(schema=schema))]
    assert (error.value.code, error.value.retryable) == (code, retryable)


async def test_scores_are_those_of_the_candidates_in_their_order():
    table = {token: SimpleNamespace(logprob=math.log(p)) for token, p in ((5, 0.5), (6, 0.25), (9, 0.125))}
    engine = saying(output("x", "length", logprobs=[table]))
    scores = await backend(engine).next_token([1, 2], [9, 5], priority=3)
    assert scores == pytest.approx([math.log(0.125), math.log(0.5)])
    params = engine.calls[0].params
    assert (params.max_tokens, params.logprob_token_ids, engine.calls[0].priority) == (1, [9, 5], 3)


@pytest.mark.parametrize("logprobs", [None, [], [{}]])
async def test_a_vllm_without_named_log_probabilities_is_no_use(logprobs):
    with pytest.raises(StageError) as error:
        await backend(saying(output("x", "length", logprobs=logprobs))).next_token([1], [2], priority=0)
    assert (error.value.code, error.value.retryable) == (ErrorCode.MODEL_FAILED, False)


async def test_a_dead_core_fails_a_score():
    with pytest.raises(StageError) as error:
        await backend(saying(RuntimeError("dead"))).next_token([1], [2], priority=0)
    assert error.value.code is ErrorCode.ENGINE_FAILED


async def test_closing_twice_stops_vllm_once():
    engine = saying()
    subject = backend(engine)
    await subject.close()
    await subject.close()
    assert engine.shutdowns == 1
