"""JSON schemas as constraints on tokens, by llguidance: 0.5 ms to compile one, 0.02-0.1 ms a token."""

import json
from collections import OrderedDict
from collections.abc import Collection
from threading import Lock
from typing import Any, Final

import numpy as np
from llguidance import LLMatcher, LLTokenizer

from llm_engine.base import JsonSchema
from llm_engine.constraint import TokenMask
from llm_engine.schema import bounded
from schemas.errors import ErrorCode, StageError

CACHED_GRAMMARS: Final = 64
"""Prompts are few, and each has one schema."""

SMALLEST_STEP: Final = 1e-6
"""Numbers have so many decimals at the most; 0.3333… would have no end."""


class GuidanceConstraints:
    """Makes constraints for one model. Thread-safe; a constraint itself belongs to one answer.

    ``tokenizer_json``: in Hugging Face's format, control tokens marked as special. Takes 0.2 s to make.
    """

    def __init__(self, tokenizer_json: str, *, stop_ids: Collection[int], vocab_size: int) -> None:
        self._stop_ids = frozenset(stop_ids)
        self._tokenizer = LLTokenizer(
            tokenizer_json, n_vocab=vocab_size, eos_token=sorted(stop_ids), slices=LLTokenizer.json_slices()
        )
        self._only_stop = np.zeros(vocab_size, np.bool_)
        self._only_stop[list(stop_ids)] = True
        self._only_stop.setflags(write=False)
        self._grammars: OrderedDict[str, LLMatcher] = OrderedDict()
        self._lock = Lock()

    def for_schema(self, schema: JsonSchema) -> "GuidedAnswer":
        """Return a new constraint to JSON without blanks that fits ``bounded(schema)``.

        Raises ``StageError`` (``BAD_SCHEMA``) for one that cannot be bounded, or that nothing fits.
        """
        grammar = json.dumps(_with_decimals(bounded(schema)))  # in the order of the properties: that of the answer too
        with self._lock:
            matcher = self._grammars.get(grammar) or self._compiled(grammar)
            self._grammars[grammar] = matcher
            self._grammars.move_to_end(grammar)
            if len(self._grammars) > CACHED_GRAMMARS:
                self._grammars.popitem(last=False)
            return GuidedAnswer(matcher.deep_copy(), stop_ids=self._stop_ids, only_stop=self._only_stop)

    def _compiled(self, schema: str) -> LLMatcher:
        try:
            grammar = LLMatcher.grammar_from_json_schema(schema, overrides={"whitespace_flexible": False})
        except ValueError as error:
            raise StageError(ErrorCode.BAD_SCHEMA, f"the schema cannot be read: {error}") from error
        matcher = LLMatcher(self._tokenizer, grammar, log_level=0)
        matcher.compute_bitmask()  # what is too complicated fails now, and the copies find much done
        if matcher.is_error():
            raise StageError(ErrorCode.BAD_SCHEMA, f"no grammar can be made of the schema: {_first_line(matcher)}")
        return matcher


class GuidedAnswer:
    """A ``Constraint``: one answer on its way to being JSON that fits its schema."""

    def __init__(self, matcher: LLMatcher, *, stop_ids: frozenset[int], only_stop: TokenMask) -> None:
        self._matcher = matcher
        self._stop_ids = stop_ids
        self._only_stop = only_stop

    @property
    def finished(self) -> bool:
        """Whether the JSON is whole. It is an object, so that nothing can follow its last brace."""
        return bool(self._matcher.is_accepting())

    def mask(self) -> TokenMask:
        """Return what may come next; at the end the stop tokens alone. Raises ``StageError`` (``ENGINE_FAILED``)."""
        if self.finished:
            return self._only_stop
        bits = np.frombuffer(self._matcher.compute_bitmask(), np.uint8)
        self._raise_error()
        allowed: TokenMask = np.unpackbits(bits, count=len(self._only_stop), bitorder="little").view(np.bool_)
        return allowed

    def advance(self, token_id: int) -> None:
        """Take in the chosen token. Raises ``StageError`` (``ENGINE_FAILED``) for one that the mask ruled out."""
        if not (self.finished and token_id in self._stop_ids):
            self._matcher.consume_token(token_id)
            self._raise_error()

    def _raise_error(self) -> None:
        if self._matcher.is_error():
            raise StageError(ErrorCode.ENGINE_FAILED, f"the answer left its schema: {_first_line(self._matcher)}")


def _with_decimals(node: Any) -> Any:
    """Return a bounded schema whose numbers have a smallest step. ``bounded`` has none: vLLM refuses the keyword."""
    match node:
        case {"type": "number"}:
            return {**node, "multipleOf": SMALLEST_STEP}
        case {"type": "object", "properties": properties}:
            return {**node, "properties": {name: _with_decimals(value) for name, value in properties.items()}}
        case {"type": "array", "items": items}:
            return {**node, "items": _with_decimals(items)}
        case {"anyOf": choices}:
            return {"anyOf": [_with_decimals(choice) for choice in choices]}
        case _:
            return node


def _first_line(matcher: LLMatcher) -> str:
    return str(matcher.get_error()).partition("\n")[0][:200]
