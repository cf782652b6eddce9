"""vLLM elsewhere: its OpenAI-compatible server, with the fields that vLLM adds to the protocol."""

import asyncio
import json
from collections.abc import AsyncGenerator, Mapping, Sequence
from pathlib import Path
from typing import Any

import httpx2

from llm_engine.backends.vllm_adapter import VllmAdapter
from llm_engine.backends.vllm_backend import Generation, Piece
from llm_engine.backends.vllm_named_scores import NamedScores
from llm_engine.backends.vllm_priority import PriorityScale
from llm_engine.backends.vllm_tokenizer import FolderTokenizer
from llm_engine.backends.vllm_wire import REFUSED, checked, connection_errors, failed
from llm_engine.prompting import PromptBook
from llm_engine.tokenizer import Tokenizer
from schemas.errors import ConfigurationError, ErrorCode, StageError

CONNECT_S = 2.0
"""A server in the same cluster answers a connection in milliseconds."""

SILENCE_S = 120.0
"""Longest wait for a server's next byte, queueing included. Deadlines are shorter; this frees requests without one."""

CONNECTIONS = 512
"""A request holds one while it runs; more than a server has seats and waiting requests that admission lets through."""

_PROBE = "Ordinary words, 1234567 and 中文。"
"""Vocabularies that cut this alike are one."""

_NEUTRAL = {"repetition_penalty": 1.0, "top_k": 0, "min_p": 0.0}
"""Named, because a server may have others as its defaults."""

Body = dict[str, Any]


class ServerBackend:
    """A connection to one server and model. Belongs to one event loop."""

    def __init__(self, client: httpx2.AsyncClient, *, model: str, max_model_len: int) -> None:
        self._client = client
        self._model = model
        self._max_model_len = max_model_len
        self._named_scores = NamedScores(client, model=model)

    @property
    def model(self) -> str:
        """Name under which the server serves the weights."""
        return self._model

    @property
    def max_model_len(self) -> int:
        """Longest sequence, prompt and output together."""
        return self._max_model_len

    async def stream(self, generation: Generation) -> AsyncGenerator[Piece, None]:
        """Yield the growing answer: see ``VllmBackend.stream``. Closing it closes the connection, which aborts."""
        sampling = generation.sampling
        body: Body = {
            "model": self._model,
            "prompt": list(generation.token_ids),
            "request_id": generation.request_id,
            "priority": generation.priority,
            "add_special_tokens": False,
            "max_tokens": sampling.max_tokens,
            "temperature": sampling.temperature,
            "top_p": sampling.top_p,
            "seed": sampling.seed,
            "stop_token_ids": sorted(generation.stop_ids),
            **_NEUTRAL,
            "stream": True,
            "stream_options": {"include_usage": True, "continuous_usage_stats": True},
        }
        refusal = ErrorCode.MODEL_FAILED
        if generation.schema is not None:
            body["structured_outputs"] = {"json": dict(generation.schema)}
            refusal = ErrorCode.BAD_SCHEMA
        answer = _Answer(refusal)
        async with connection_errors(), self._client.stream("POST", "/v1/completions", json=body) as response:
            await checked(response, refusal=refusal)
            async for line in response.aiter_lines():
                answer.read(line)
                yield answer.piece()

    async def next_token(self, token_ids: Sequence[int], candidates: Sequence[int], *, priority: int) -> list[float]:
        """Return log P(candidate | token_ids) for each candidate: see ``VllmBackend.next_token``."""
        return await self._named_scores(token_ids, candidates, priority=priority)

    async def close(self) -> None:
        """Close the connections. The server goes on. Safe to call twice."""
        await self._client.aclose()


class _Answer:
    """What the events of one stream add up to."""

    def __init__(self, refusal: ErrorCode) -> None:
        self._refusal = refusal
        self._text = ""
        self._usage: Mapping[str, Any] = {}
        self._finish_reason: str | None = None

    def read(self, line: str) -> None:
        """Take in one line of the stream. Raises ``StageError`` when it tells of an error, or can't be read."""
        event = line.removeprefix("data:").strip()
        if not line.startswith("data:") or event == "[DONE]":
            return
        try:
            told = json.loads(event)
            if "error" in told:
                raise self._broken(told["error"])
            self._usage = told.get("usage") or self._usage
            for choice in told["choices"]:
                self._text += choice["text"]
                self._finish_reason = choice["finish_reason"] or self._finish_reason
        except (ValueError, KeyError, TypeError, AttributeError) as error:
            raise failed(f"the server's stream cannot be read: {event[:200]!r}") from error

    def _broken(self, error: Mapping[str, Any]) -> StageError:
        said = f"the server broke off: {error['message']}"
        return StageError(self._refusal, said) if error["code"] in REFUSED else failed(said)

    def piece(self) -> Piece:
        """Return the answer so far."""
        details = self._usage.get("prompt_tokens_details") or {}
        return Piece(
            self._text,
            int(self._usage.get("completion_tokens") or 0),
            int(details.get("cached_tokens") or 0),
            self._finish_reason,
        )


async def connect(
    url: str, *, tokenizer: Path, prompts: PromptBook, api_key: str | None = None, model: str | None = None
) -> VllmAdapter:
    """Return the engine behind ``url`` (without ``/v1``); ``model`` is needed when it serves more than one.

    ``tokenizer`` is a folder with the model's tokenizer: prompts are sent as tokens, so that nothing in them becomes a
    control token, and too long ones are refused here. Raises ``ConfigurationError`` when it is another model's, and
    ``StageError`` (``ENGINE_FAILED``) when the server doesn't answer.
    """
    ours = await asyncio.to_thread(FolderTokenizer, tokenizer)
    client = httpx2.AsyncClient(
        base_url=url,
        headers={} if api_key is None else {"Authorization": f"Bearer {api_key}"},
        timeout=httpx2.Timeout(SILENCE_S, connect=CONNECT_S),
        limits=httpx2.Limits(max_connections=CONNECTIONS),
        trust_env=False,
    )
    try:
        async with connection_errors():
            name, max_model_len = await _served(client, model)
            await _compare(client, ours, name)
    except BaseException:
        await client.aclose()
        raise
    backend = ServerBackend(client, model=name, max_model_len=max_model_len)
    return VllmAdapter(backend, tokenizer=ours, prompts=prompts, scale=PriorityScale.of())


async def _served(client: httpx2.AsyncClient, wanted: str | None) -> tuple[str, int]:
    """Return name and length of the model to use."""
    response = await client.get("/v1/models")
    await checked(response)
    try:
        lengths = {card["id"]: int(card["max_model_len"]) for card in response.json()["data"]}
    except (ValueError, KeyError, TypeError) as error:
        raise ConfigurationError(ErrorCode.BAD_SETTING, f"{client.base_url} is no vLLM server") from error
    names = list(lengths) if wanted is None else [name for name in lengths if name == wanted]
    if len(names) != 1:
        raise ConfigurationError(ErrorCode.BAD_SETTING, f"the server has the models {list(lengths)}: name one")
    return names[0], lengths[names[0]]


async def _compare(client: httpx2.AsyncClient, ours: Tokenizer, model: str) -> None:
    """Raise ``ConfigurationError`` when our tokenizer isn't the server's."""
    response = await client.post("/tokenize", json={"model": model, "prompt": _PROBE, "add_special_tokens": False})
    await checked(response)
    if response.json().get("tokens") != ours.encode(_PROBE):
        raise ConfigurationError(ErrorCode.BAD_SETTING, f"the tokenizer is not that of the server's model {model!r}")
