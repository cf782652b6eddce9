"""The client of vLLM's server, against answers as the real one gives them."""

import json
from collections.abc import Callable
from typing import Any

import httpx2
import pytest

from llm_engine.backends import vllm_server
from llm_engine.backends.vllm_backend import Generation, Piece
from llm_engine.backends.vllm_server import ServerBackend, connect
from llm_engine.base import Sampling
from llm_engine.prompting import load_prompts
from schemas.errors import ConfigurationError, ErrorCode, StageError
from tests.unit.vllm_fakes import LetterTokenizer

Handler = Callable[[httpx2.Request], httpx2.Response]


def client(handler: Handler) -> httpx2.AsyncClient:
    return httpx2.AsyncClient(base_url="http://vllm", transport=httpx2.MockTransport(handler))


def backend(handler: Handler) -> ServerBackend:
    return ServerBackend(client(handler), model="m", max_model_len=100)


def generation(**changes: Any) -> Generation:
    fields = {"request_id": "r", "token_ids": [1, 2], "sampling": Sampling(9), "stop_ids": frozenset({2})}
    return Generation(**(fields | {"schema": None, "priority": 77} | changes))


def event(text: str, finish_reason: str | None = None, **more: Any) -> str:
    return "data: " + json.dumps({"choices": [{"text": text, "finish_reason": finish_reason}], **more})


USAGE = "data: " + json.dumps(
    {"choices": [], "usage": {"completion_tokens": 2, "prompt_tokens_details": {"cached_tokens": 1}}}
)


def streaming(*lines: str) -> Handler:
    return lambda request: httpx2.Response(200, text="\n\n".join(lines) + "\n\n")


async def pieces(handler: Handler, **changes: Any) -> list[Piece]:
    return [piece async for piece in backend(handler).stream(generation(**changes))]


async def failure(handler: Handler, **changes: Any) -> StageError:
    with pytest.raises(StageError) as error:
        await pieces(handler, **changes)
    return error.value


async def test_deltas_add_up_and_the_last_piece_tells_the_usage():
    found = await pieces(streaming(event("a"), ": a comment", event("b", "stop"), USAGE, "data: [DONE]"))
    assert found[0] == ("a", 0, 0, None)
    assert found[-1] == ("ab", 2, 1, "stop")


async def test_the_request_holds_tokens_priority_and_constraint():
    sent = []

    def handler(request: httpx2.Request) -> httpx2.Response:
        sent.append(json.loads(request.content))
        return streaming(event("", "stop"))(request)

    await pieces(handler, schema={"type": "object"})
    wanted = {
        "model": "m",
        "prompt": [1, 2],
        "priority": 77,
        "request_id": "r",
        "max_tokens": 9,
        "temperature": 0.0,
        "structured_outputs": {"json": {"type": "object"}},
    }
    assert wanted.items() <= sent[0].items()


@pytest.mark.parametrize("status", [401, 404, 429, 500, 503])
async def test_a_server_that_cannot_now_may_be_asked_again(status):
    error = await failure(lambda request: httpx2.Response(status, text="no"))
    assert (error.code, error.retryable) == (ErrorCode.ENGINE_FAILED, True)


@pytest.mark.parametrize("status", [400, 422])
async def test_a_refused_request_is_not_asked_again(status):
    error = await failure(lambda request: httpx2.Response(status, text="no"))
    assert (error.code, error.retryable) == (ErrorCode.MODEL_FAILED, False)
    error = await failure(lambda request: httpx2.Response(status, text="no"), schema={"type": "object"})
    assert (error.code, error.retryable) == (ErrorCode.BAD_SCHEMA, False)


async def test_a_refusal_may_come_inside_the_stream():
    line = 'data: {"error": {"message": "bad grammar", "code": 400}}'
    assert (await failure(streaming(line), schema={"type": "object"})).code is ErrorCode.BAD_SCHEMA
    line = 'data: {"error": {"message": "the engine died", "code": 500}}'
    assert (await failure(streaming(event("a"), line))).code is ErrorCode.ENGINE_FAILED


@pytest.mark.parametrize("line", ["data: {not json", "data: []", 'data: {"choices": [{}]}', 'data: {"error": {}}'])
async def test_nonsense_in_the_stream_is_a_failure(line):
    assert (await failure(streaming(line))).code is ErrorCode.ENGINE_FAILED


@pytest.mark.parametrize("raised", [httpx2.ConnectError("refused"), httpx2.ReadTimeout("silence")])
async def test_a_server_that_is_gone_may_be_replaced(raised):
    def handler(request: httpx2.Request) -> httpx2.Response:
        raise raised

    error = await failure(handler)
    assert (error.code, error.retryable) == (ErrorCode.ENGINE_FAILED, True)


COMPLETIONS, TOKENS = "/v1/completions", "/inference/v1/generate"
TOP = {"token_id:5": -0.5, "token_id:9": -1.0}
TOPMOST = {"token_id:17": -0.1, "token_id:4": -0.2}
"""What a server gives that overlooks the names."""

NEWER = {COMPLETIONS: httpx2.Response(200, json={"choices": [{"logprobs": {"top_logprobs": [TOP]}}]})}
OLDER = {
    COMPLETIONS: httpx2.Response(200, json={"choices": [{"logprobs": {"top_logprobs": [TOPMOST]}}]}),
    TOKENS: httpx2.Response(
        200,
        json={
            "choices": [
                {"logprobs": {"content": [{"top_logprobs": [{"token": t, "logprob": p} for t, p in TOP.items()]}]}}
            ]
        },
    ),
}


@pytest.mark.parametrize("answers", [NEWER, OLDER], ids=["0.32", "0.23"])
async def test_scores_are_those_of_the_candidates_in_their_order(answers):
    sent: list[tuple[str, dict[str, Any]]] = []

    def handler(request: httpx2.Request) -> httpx2.Response:
        sent.append((request.url.path, json.loads(request.content)))
        return answers[request.url.path]

    server = backend(handler)
    for _ in range(2):
        assert await server.next_token([1, 2], [9, 5], priority=3) == [-1.0, -0.5]
    assert [path for path, _ in sent] == [*answers, list(answers)[-1]], "the dialect is found out once"
    body = sent[-1][1]
    assert body["priority"] == 3
    assert [1, 2] in (body.get("prompt"), body.get("token_ids"))
    wanted = {"logprob_token_ids": [9, 5], "logprobs": 2, "max_tokens": 1}
    assert wanted.items() <= body.get("sampling_params", body).items()


@pytest.mark.parametrize("second", [httpx2.Response(403), httpx2.Response(404), httpx2.Response(200, json={})])
async def test_a_server_without_named_log_probabilities_is_no_use(second):
    answers = OLDER | {TOKENS: second}
    with pytest.raises(StageError) as error:
        await backend(lambda request: answers[request.url.path]).next_token([1], [5], priority=0)
    assert (error.value.code, error.value.retryable) == (ErrorCode.MODEL_FAILED, False)


def letters(text: str) -> list[int]:
    return LetterTokenizer().encode(text)


def serving(*names: str, tokens: Callable[[str], list[int]] = letters) -> Handler:
    def handler(request: httpx2.Request) -> httpx2.Response:
        if request.url.path == "/v1/models":
            return httpx2.Response(200, json={"data": [{"id": name, "max_model_len": 64} for name in names]})
        return httpx2.Response(200, json={"tokens": tokens(json.loads(request.content)["prompt"])})

    return handler


@pytest.fixture
def connecting(monkeypatch, tmp_path):
    """Return a function that connects to a server of answers, with a tokenizer of letters."""
    monkeypatch.setattr(vllm_server, "FolderTokenizer", lambda folder: LetterTokenizer())
    real = httpx2.AsyncClient

    async def connected(handler: Handler, model: str | None = None) -> str:
        transport = httpx2.MockTransport(handler)
        monkeypatch.setattr(httpx2, "AsyncClient", lambda **options: real(**options, transport=transport))
        engine = await connect("http://vllm", tokenizer=tmp_path, prompts=load_prompts(), model=model)
        await engine.close()
        return engine.model

    return connected


async def test_the_only_model_is_the_one(connecting):
    assert (await connecting(serving("a"))).startswith("a+")
    assert (await connecting(serving("a", "b"), model="b")).startswith("b+")


@pytest.mark.parametrize(("names", "model"), [(("a", "b"), None), (("a",), "b"), ((), None)])
async def test_a_model_that_is_not_clear_is_asked_for(connecting, names, model):
    with pytest.raises(ConfigurationError, match="name one"):
        await connecting(serving(*names), model=model)


async def test_another_models_tokenizer_is_found_out(connecting):
    with pytest.raises(ConfigurationError, match="tokenizer"):
        await connecting(serving("a", tokens=lambda text: [1]))


async def test_what_is_no_vllm_is_found_out(connecting):
    with pytest.raises(ConfigurationError, match="no vLLM"):
        await connecting(lambda request: httpx2.Response(200, text="hello"))


async def test_no_server_is_an_engine_that_failed(connecting):
    def refused(request: httpx2.Request) -> httpx2.Response:
        raise httpx2.ConnectError("refused")

    with pytest.raises(StageError) as error:
        await connecting(refused)
    assert (error.value.code, error.value.retryable) == (ErrorCode.ENGINE_FAILED, True)
