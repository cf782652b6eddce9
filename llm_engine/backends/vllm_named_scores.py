"""Log-probabilities of named tokens from a vLLM server. Versions differ in where they can be asked for."""

from collections.abc import Mapping, Sequence
from itertools import count
from typing import Any, Protocol

import httpx2

from llm_engine.backends.vllm_wire import checked, connection_errors
from schemas.errors import ErrorCode, StageError

Body = dict[str, Any]


class _Dialect(Protocol):
    path: str

    def body(self, token_ids: Sequence[int], candidates: Sequence[int]) -> Body:
        """Return the question, as far as it differs from other dialects'."""
        ...

    def table(self, answer: Any) -> Mapping[int, float]:
        """Return log-probabilities by token. Raises ``KeyError``, ``TypeError``, ... when there are none."""
        ...


class _Completions:
    """Of vLLM 0.32: a field of its own in the OpenAI request. 0.23 overlooks the field."""

    path = "/v1/completions"

    def body(self, token_ids: Sequence[int], candidates: Sequence[int]) -> Body:
        return {
            "prompt": list(token_ids),
            "add_special_tokens": False,
            "max_tokens": 1,
            "temperature": 0.0,
            "logprobs": len(candidates),
            "logprob_token_ids": list(candidates),
            "return_tokens_as_token_ids": True,
        }

    def table(self, answer: Any) -> Mapping[int, float]:
        found = answer["choices"][0]["logprobs"]["top_logprobs"][0]
        return {_number(name): float(value) for name, value in found.items()}


class _Tokens:
    """Of vLLM 0.23: tokens in, tokens out. 0.32 has it only with ``--enable-scale-out``."""

    path = "/inference/v1/generate"

    def body(self, token_ids: Sequence[int], candidates: Sequence[int]) -> Body:
        sampling = {
            "max_tokens": 1,
            "temperature": 0.0,
            "logprobs": len(candidates),
            "logprob_token_ids": list(candidates),
            "allowed_token_ids": list(candidates),  # any other token, once chosen, would take the last one's place
        }
        return {"token_ids": list(token_ids), "sampling_params": sampling}

    def table(self, answer: Any) -> Mapping[int, float]:
        found = answer["choices"][0]["logprobs"]["content"][0]["top_logprobs"]
        return {_number(entry["token"]): float(entry["logprob"]) for entry in found}


class NamedScores:
    """Asks one server in the first dialect that it understands, found out by asking."""

    def __init__(self, client: httpx2.AsyncClient, *, model: str) -> None:
        self._client = client
        self._model = model
        self._dialects: tuple[_Dialect, ...] = (_Completions(), _Tokens())
        self._numbers = count()

    async def __call__(self, token_ids: Sequence[int], candidates: Sequence[int], *, priority: int) -> list[float]:
        """Return log P(candidate | token_ids) for each candidate. Raises ``StageError``."""
        common = {"model": self._model, "request_id": f"score-{next(self._numbers)}", "priority": priority}
        for dialect in self._dialects:
            scores = await self._ask(dialect, common | dialect.body(token_ids, candidates), candidates)
            if scores is not None:
                self._dialects = (dialect,)
                return scores
        raise StageError(ErrorCode.MODEL_FAILED, "the server gives no log-probabilities of named tokens")

    async def _ask(self, dialect: _Dialect, body: Body, candidates: Sequence[int]) -> list[float] | None:
        """Return the scores; None when the server doesn't speak ``dialect``."""
        async with connection_errors():
            response = await self._client.post(dialect.path, json=body)
        if response.status_code in {httpx2.codes.FORBIDDEN, httpx2.codes.NOT_FOUND}:
            return None
        await checked(response)
        try:
            found = dialect.table(response.json())
            return [found[token] for token in candidates]
        except (ValueError, KeyError, TypeError, IndexError, AttributeError):
            return None


def _number(name: str) -> int:
    return int(name.removeprefix("token_id:"))
