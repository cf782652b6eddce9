"""Whatever the model wants to say, what it may say is JSON that fits the schema, and it ends.

Random logits stand for the worst of models; the real tokenizer makes sure that no token is half a rule.
"""

import json
from pathlib import Path
from typing import Any

import jsonschema
import numpy as np
import pytest

from llm_engine.backends.gguf_tokenizer import GgufTokenizer
from llm_engine.backends.guidance import GuidanceConstraints, GuidedAnswer
from llm_engine.base import Sampling
from llm_engine.sampler import Row, Sampler
from schemas.errors import ErrorCode, StageError

pytestmark = pytest.mark.models

ENDLESS_TOKENS = 2000
"""No answer to the schemas here is nearly as long."""

WALKS = 200


def answer(**properties: Any) -> dict[str, Any]:
    return {"type": "object", "properties": properties, "required": list(properties)}


SCHEMAS: dict[str, dict[str, Any]] = {
    "enums": answer(
        mood={"enum": ["positive", "neutral", "negative"]}, topic={"enum": ["音乐", "新闻", 'a "b"\\', 7, None]}
    ),
    "numbers": answer(
        share={"type": "number", "minimum": 0, "maximum": 1},
        any={"type": "number"},
        whole={"type": "integer", "minimum": -20, "exclusiveMaximum": 300},
        between={"type": "number", "exclusiveMinimum": -1, "exclusiveMaximum": 1},
    ),
    "nested arrays": answer(
        rows={"type": "array", "items": {"type": "array", "items": {"type": "boolean"}, "minItems": 2}}
    ),
    "strings": answer(
        summary={"type": "string", "maxLength": 40}, code={"type": "string", "minLength": 3, "maxLength": 5}
    ),
    "optional": {
        **answer(a={"type": "string"}, b={"type": ["null", "integer"]}, c={"type": "boolean"}),
        "required": ["b"],
    },
    "as pydantic writes it": {
        "$defs": {
            "Label": {"title": "Label", **answer(name={"type": "string", "title": "Name"}, score={"type": "number"})}
        },
        "title": "Answer",
        **answer(labels={"type": "array", "items": {"$ref": "#/$defs/Label"}, "maxItems": 3}),
    },
}


@pytest.fixture(scope="module")
def tokenizer(weights: Path) -> GgufTokenizer:
    return GgufTokenizer(weights / "smollm2-135m-instruct" / "SmolLM2-135M-Instruct.Q8_0.gguf")


@pytest.fixture(scope="module")
def constraints(tokenizer: GgufTokenizer) -> GuidanceConstraints:
    return GuidanceConstraints(tokenizer.to_json(), stop_ids=tokenizer.stop_ids, vocab_size=tokenizer.vocab_size)


@pytest.fixture(scope="module")
def logits(tokenizer: GgufTokenizer) -> Row:
    """Many rows of noise end to end; each step takes another window of them."""
    return np.random.default_rng(0).normal(scale=4, size=2 * tokenizer.vocab_size).astype(np.float32)


def walk(rule: GuidedAnswer, sampler: Sampler, logits: Row, *, seed: int | None) -> list[int]:
    """Return the tokens up to the end of the JSON. Without a seed every step has the same logits."""
    random, half, tokens = np.random.default_rng(seed), len(logits) // 2, []
    while not rule.finished:
        start = 0 if seed is None else int(random.integers(half))
        tokens.append(sampler.choose(logits[start : start + half]))
        assert len(tokens) < ENDLESS_TOKENS, "it never ends"
    return tokens


@pytest.mark.parametrize("name", SCHEMAS)
def test_random_words_are_json_that_fits(
    name: str, tokenizer: GgufTokenizer, constraints: GuidanceConstraints, logits: Row
) -> None:
    schema, seen = SCHEMAS[name], set()
    for seed in range(WALKS // len(SCHEMAS) + 1):
        rule = constraints.for_schema(schema)
        sampler = Sampler(Sampling(temperature=(0.0, 1.0)[seed % 2], top_p=0.95, seed=seed), rule)
        text = tokenizer.decode(walk(rule, sampler, logits, seed=seed))
        jsonschema.validate(json.loads(text), schema)
        seen.add(text)
    assert len(seen) > 5, "the rules leave a choice"


def test_a_whole_answer_can_only_stop(tokenizer: GgufTokenizer, constraints: GuidanceConstraints, logits: Row) -> None:
    rule = constraints.for_schema(SCHEMAS["enums"])
    assert not any(rule.mask()[token] for token in tokenizer.stop_ids), "nor can it stop before"
    sampler = Sampler(Sampling(), rule)
    walk(rule, sampler, logits, seed=1)
    assert set(np.flatnonzero(rule.mask())) == tokenizer.stop_ids
    assert sampler.choose(logits[: tokenizer.vocab_size]) in tokenizer.stop_ids
    assert rule.finished


def insist(rule: GuidedAnswer, tokenizer: GgufTokenizer, *wishes: str) -> str:
    """Return what a model says that always wants the first of ``wishes`` that is allowed."""
    logits = np.zeros(tokenizer.vocab_size, np.float32)
    for wish, text in enumerate(wishes):
        logits[tokenizer.encode(text)] = len(wishes) - wish
    return tokenizer.decode(walk(rule, Sampler(Sampling(), rule), np.tile(logits, 2), seed=None))


def test_digits_without_end_are_cut(tokenizer: GgufTokenizer, constraints: GuidanceConstraints) -> None:
    rule = constraints.for_schema(answer(third={"type": "number", "minimum": 0, "maximum": 1}, long={"type": "number"}))
    text = insist(rule, tokenizer, "3", ".", "0")
    assert text == '{"third":0.333333,"long":3333333333333333.333333}'


def test_a_letter_without_end_is_cut(tokenizer: GgufTokenizer, constraints: GuidanceConstraints) -> None:
    rule = constraints.for_schema(answer(text={"type": "string"}))
    assert json.loads(insist(rule, tokenizer, "a")) == {"text": "a" * 200}


def test_two_answers_to_one_schema_do_not_disturb_each_other(
    tokenizer: GgufTokenizer, constraints: GuidanceConstraints, logits: Row
) -> None:
    one, other = (constraints.for_schema(SCHEMAS["strings"]) for _ in range(2))
    first = other.mask()
    walk(one, Sampler(Sampling(), one), logits, seed=1)
    assert np.array_equal(other.mask(), first)


def test_chinese_and_emoji_can_be_said(tokenizer: GgufTokenizer, constraints: GuidanceConstraints) -> None:
    rule = constraints.for_schema(answer(text={"type": "string", "maxLength": 10}))
    for token in tokenizer.encode('{"text":"你好👍🏽é"}'):
        assert rule.mask()[token]
        rule.advance(token)
    assert rule.finished


def test_a_control_token_is_never_allowed_inside(tokenizer: GgufTokenizer, constraints: GuidanceConstraints) -> None:
    rule = constraints.for_schema(answer(text={"type": "string"}))
    for token in tokenizer.encode('{"text":"So '):
        assert not rule.mask()[:17].any(), "the ids up to 16 are the control tokens"
        rule.advance(token)


def test_a_token_that_was_ruled_out_is_an_engine_failure(
    tokenizer: GgufTokenizer, constraints: GuidanceConstraints
) -> None:
    rule = constraints.for_schema(SCHEMAS["strings"])
    with pytest.raises(StageError) as raised:
        rule.advance(tokenizer.encode("Sure")[0])
    assert raised.value.code is ErrorCode.ENGINE_FAILED


@pytest.mark.parametrize(
    "part",
    [
        {"type": "integer", "exclusiveMinimum": 1, "exclusiveMaximum": 2},
        {"enum": ["\ud800"]},
        {"type": "string", "pattern": "a+"},
    ],
)
def test_a_schema_that_nothing_fits_is_refused(constraints: GuidanceConstraints, part: dict[str, Any]) -> None:
    with pytest.raises(StageError) as raised:
        constraints.for_schema(answer(part=part))
    assert raised.value.code is ErrorCode.BAD_SCHEMA


def test_many_schemas_do_not_fill_the_memory(constraints: GuidanceConstraints) -> None:
    for number in range(100):
        constraints.for_schema(answer(part={"const": number}))
    assert len(constraints._grammars) <= 64
