"""Schemas that let an answer run on are bounded; what cannot be bounded is refused, with its place."""

import copy
from typing import Any

import jsonschema
import pytest

from llm_engine.schema import MAX_CHARS, MAX_DEPTH, MAX_ITEMS, MAX_WHOLE, bounded
from schemas.errors import ErrorCode, StageError


def answer(**properties: Any) -> dict[str, Any]:
    """The schema of an object with these properties, all of them required."""
    return {"type": "object", "properties": properties, "required": list(properties)}


def bounded_part(part: dict[str, Any]) -> Any:
    """What becomes of a property."""
    return bounded(answer(part=part))["properties"]["part"]


def referring(**definitions: Any) -> dict[str, Any]:
    return {**answer(a={"$ref": "#/$defs/A"}), "$defs": definitions}


@pytest.mark.parametrize(
    ("part", "becomes"),
    [
        ({"type": "string"}, {"type": "string", "maxLength": MAX_CHARS}),
        ({"type": "string", "maxLength": 10**6}, {"type": "string", "maxLength": MAX_CHARS}),
        ({"type": "string", "minLength": 2, "maxLength": 5}, {"type": "string", "minLength": 2, "maxLength": 5}),
        (
            {"type": "array", "items": {"type": "boolean"}},
            {"type": "array", "maxItems": MAX_ITEMS, "items": {"type": "boolean"}},
        ),
        (
            {"type": "array", "items": {"type": "null"}, "minItems": 1, "maxItems": 3},
            {"type": "array", "minItems": 1, "maxItems": 3, "items": {"type": "null"}},
        ),
        ({"type": "integer"}, {"type": "integer", "minimum": -MAX_WHOLE, "maximum": MAX_WHOLE}),
        ({"type": "number", "minimum": 0, "maximum": 1e300}, {"type": "number", "minimum": 0, "maximum": MAX_WHOLE}),
        (
            {"type": "number", "exclusiveMinimum": 0, "maximum": 1},
            {"type": "number", "exclusiveMinimum": 0, "minimum": -MAX_WHOLE, "maximum": 1},
        ),
        ({"type": "object"}, {"type": "object", "properties": {}, "required": [], "additionalProperties": False}),
        ({"enum": ["a", 1, None, True]}, {"enum": ["a", 1, None, True]}),
        ({"const": "a", "type": "string"}, {"enum": ["a"]}),
        ({"type": "integer", "enum": [1, "a", True, 2]}, {"enum": [1, 2]}),
        ({"type": ["string", "null"], "enum": ["a", None, 3]}, {"enum": ["a", None]}),
        (
            {"type": ["string", "null"], "maxLength": 3},
            {"anyOf": [{"type": "string", "maxLength": 3}, {"type": "null"}]},
        ),
        ({"type": ["null"]}, {"type": "null"}),
        (
            {"anyOf": [{"type": "string"}, {"type": "null"}], "default": None, "title": "Part"},
            {"anyOf": [{"type": "string", "maxLength": MAX_CHARS}, {"type": "null"}]},
        ),
    ],
)
def test_every_part_is_bounded(part: dict[str, Any], becomes: dict[str, Any]) -> None:
    assert bounded_part(part) == becomes


def test_strings_may_be_bounded_more_tightly() -> None:
    assert bounded(answer(a={"type": "string"}), max_chars=7)["properties"]["a"]["maxLength"] == 7


def test_objects_take_no_other_properties_at_any_depth() -> None:
    inner = {"type": "object", "properties": {"b": {"type": "null"}}, "additionalProperties": True}
    found = bounded(answer(a=inner))
    assert found["additionalProperties"] is False
    assert found["properties"]["a"]["additionalProperties"] is False


def test_properties_keep_their_order_and_the_optional_ones_stay_optional() -> None:
    schema = {**answer(z={"type": "null"}, a={"type": "null"}), "required": ["a"]}
    found = bounded(schema)
    assert (list(found["properties"]), found["required"]) == (["z", "a"], ["a"])


def test_references_are_resolved_each_time() -> None:
    schema = referring(A={"type": "array", "items": {"$ref": "#/$defs/odd~1na~0me"}}, **{"odd/na~me": {"type": "null"}})
    assert bounded(schema)["properties"]["a"]["items"] == {"type": "null"}


def test_the_answer_itself_may_be_a_reference() -> None:
    assert bounded({"$ref": "#/$defs/A", "$defs": {"A": answer(a={"type": "null"})}})["type"] == "object"


def test_bounding_twice_changes_nothing_more() -> None:
    schema = answer(
        a={"type": ["string", "integer"]},
        b={"const": 1},
        c={"type": "array", "items": {"type": "number", "minimum": 0.5}},
    )
    once = bounded(schema)
    assert bounded(once) == once


def test_the_schema_that_was_given_stays_as_it_is() -> None:
    schema = answer(a={"type": "string"}, b=answer(c={"enum": ["x"]}))
    before = copy.deepcopy(schema)
    found = bounded(schema)
    found["properties"]["b"]["properties"]["c"]["enum"].append("y")
    assert schema == before


def test_what_comes_out_is_a_schema() -> None:
    jsonschema.Draft202012Validator.check_schema(bounded(answer(a={"type": ["number", "null"]}, b={"type": "object"})))


@pytest.mark.parametrize(
    ("part", "words"),
    [
        ({}, "a type, enum, const"),
        (True, "a schema must be an object"),
        ("string", "a schema must be an object"),
        ({"type": "text"}, "the type 'text' is unknown"),
        ({"type": 3}, "the type 3 is unknown"),
        ({"type": ["string", "text"]}, "not known"),
        ({"type": ["string", "string"]}, "not different"),
        ({"type": []}, "not known"),
        ({"type": "string", "pattern": "^a+$"}, "pattern cannot be used here"),
        ({"type": "string", "format": "date"}, "format cannot be used here"),
        ({"type": "string", "minimum": 3}, "minimum cannot be used here"),
        ({"type": ["string", "null"], "minimum": 3}, "minimum cannot be used here"),
        ({"type": "string", "maxLength": -1}, "whole numbers"),
        ({"type": "string", "maxLength": True}, "whole numbers"),
        ({"type": "string", "minLength": 300}, "minLength is 300"),
        ({"type": "array"}, "an array needs items"),
        ({"type": "array", "items": {}}, "a type, enum, const"),
        ({"type": "array", "items": {"type": "null"}, "minItems": 17}, "minItems is 17"),
        ({"type": "array", "items": {"type": "null"}, "uniqueItems": True}, "uniqueItems cannot be used here"),
        ({"type": "array", "items": {"type": "null"}, "prefixItems": []}, "prefixItems cannot be used here"),
        ({"type": "integer", "multipleOf": 2}, "multipleOf cannot be used here"),
        ({"type": "integer", "minimum": 3, "maximum": 2}, "no number lies"),
        ({"type": "number", "minimum": float("nan")}, "minimum must be a number"),
        ({"type": "number", "exclusiveMaximum": True}, "exclusiveMaximum must be a number"),
        ({"type": "number", "minimum": 10**400}, "no number lies"),
        ({"type": "object", "properties": []}, "properties must be an object"),
        ({"type": "object", "properties": {1: {}}}, "properties must be an object"),
        ({"type": "object", "required": ["a"]}, "required must list names"),
        ({"type": "object", "required": [["a"]]}, "required must list names"),
        ({"type": "object", "additionalProperties": {"type": "string"}}, "name them"),
        ({"type": "object", "patternProperties": {}}, "patternProperties cannot be used here"),
        ({"enum": []}, "no constant is left"),
        ({"enum": "abc"}, "constants must be"),
        ({"enum": [[1]]}, "constants must be"),
        ({"enum": [float("inf")]}, "constants must be"),
        ({"enum": ["a"], "maxLength": 3}, "maxLength cannot be used here"),
        ({"enum": ["a"], "const": "b"}, "no constant is left"),
        ({"type": "integer", "enum": ["a", True]}, "no constant is left"),
        ({"anyOf": []}, "anyOf must list"),
        ({"anyOf": [{"type": "null"}], "type": "null"}, "type cannot be used here"),
        ({"oneOf": [{"type": "null"}]}, "a type, enum, const"),
        ({"type": "null", "not": {}}, "not cannot be used here"),
        ({"$ref": "https://example.com/schema"}, "leads out of the schema"),
        ({"$ref": "#"}, "leads out of the schema"),
        ({"$ref": 3}, "leads out of the schema"),
        ({"$ref": "#/$defs/None"}, "there is no"),
        ({"$ref": "#/type/x"}, "there is no"),
        ({"$ref": "#/properties/part"}, "refers to itself"),
    ],
)
def test_what_cannot_be_bounded_is_refused_with_its_place(part: Any, words: str) -> None:
    with pytest.raises(StageError, match=words) as raised:
        bounded(answer(part=part))
    assert raised.value.code is ErrorCode.BAD_SCHEMA
    assert raised.value.message.startswith("$.part")
    assert not raised.value.retryable


def test_the_place_of_a_mistake_is_spelt_out() -> None:
    schema = answer(a={"type": "array", "items": answer(b={"anyOf": [{"type": "null"}, {}]})})
    with pytest.raises(StageError, match=r"^BAD_SCHEMA: \$\.a\[\]\.b\|1: a type"):
        bounded(schema)


@pytest.mark.parametrize(
    "root", [{"type": "string"}, {"enum": ["a"]}, {"type": "array", "items": {"type": "null"}}, {}]
)
def test_the_answer_as_a_whole_is_an_object(root: dict[str, Any]) -> None:
    with pytest.raises(StageError) as raised:
        bounded(root)
    assert raised.value.code is ErrorCode.BAD_SCHEMA


@pytest.mark.parametrize(
    "schema",
    [
        referring(A={"$ref": "#/$defs/A"}),
        referring(A={"$ref": "#/$defs/B"}, B={"type": "array", "items": {"$ref": "#/$defs/A"}}),
    ],
)
def test_recursion_is_refused(schema: dict[str, Any]) -> None:
    with pytest.raises(StageError, match="refers to itself"):
        bounded(schema)


def test_nesting_has_an_end() -> None:
    deep: dict[str, Any] = {"type": "null"}
    for _ in range(MAX_DEPTH + 1):
        deep = {"type": "array", "items": deep}
    with pytest.raises(StageError, match="deeper than"):
        bounded(answer(a=deep))


def test_references_cannot_multiply_without_end() -> None:
    doubled = {f"L{n}": answer(a={"$ref": f"#/$defs/L{n + 1}"}, b={"$ref": f"#/$defs/L{n + 1}"}) for n in range(10)}
    schema = {**answer(a={"$ref": "#/$defs/L0"}), "$defs": {**doubled, "L10": {"type": "null"}}}
    with pytest.raises(StageError, match="more than 500 parts"):
        bounded(schema)
