"""JSON schemas under which every answer ends.

A language model that may go on, goes on: a string without a longest length or a list without a last item eats all
tokens and leaves half a JSON. So each schema is rewritten to allow less than it did, never more: what fits the result
fits the original. Keywords that engines support unevenly (patterns, formats, unions by ``oneOf``) are refused rather
than ignored.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from llm_engine.base import JsonSchema
from schemas.errors import ErrorCode, StageError

MAX_CHARS: Final = 200
"""Of a string: a long sentence, about 50 tokens."""

MAX_ITEMS: Final = 16
"""Of an array."""

MAX_WHOLE: Final = 2**53 - 1
"""The largest integer that every JSON reader keeps exactly, and 16 digits at the most."""

MAX_DEPTH: Final = 16
MAX_NODES: Final = 500
"""Sub-schemas, each use of a shared one counted: twenty nested references could else stand for a million."""

_ANNOTATIONS: Final = frozenset(
    ("$schema", "$id", "$comment", "$defs", "definitions", "title", "description", "default", "examples", "deprecated")
)
"""They say nothing about what fits, and are left out."""

_KEYWORDS: Final = {
    "object": frozenset(("properties", "required", "additionalProperties")),
    "array": frozenset(("items", "minItems", "maxItems")),
    "string": frozenset(("minLength", "maxLength")),
    "integer": frozenset(("minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum")),
    "number": frozenset(("minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum")),
    "boolean": frozenset[str](),
    "null": frozenset[str](),
}
"""What each type understands, beside ``type``."""

_PYTHON_TYPES: Final[Mapping[str, tuple[type, ...]]] = {
    "string": (str,),
    "integer": (int,),
    "number": (int, float),
    "boolean": (bool,),
    "null": (type(None),),
}
"""Of the constants that are allowed; ``bool`` is an ``int`` to Python but not to JSON."""

Node = dict[str, Any]


def bounded(schema: JsonSchema, *, max_chars: int = MAX_CHARS) -> Node:
    """Return a form of ``schema`` under which every answer is of limited length. Applied again, it changes nothing.

    Strings get a ``maxLength`` of at most ``max_chars``, arrays a ``maxItems``, numbers a smallest and a largest value;
    objects have no properties but those named; references are resolved, annotations left out. Does not mutate. Raises
    ``StageError`` (``BAD_SCHEMA``) that names the place of what cannot be bounded or is not supported.
    """
    node = _Bounding(schema, max_chars).node(schema, _Place("$"))
    if node.get("type") != "object":
        raise _refusal("$", "the answer as a whole must be an object")
    return node


@dataclass(frozen=True, slots=True)
class _Place:
    """Where in the schema we are: a path for people, the references that led here, and how deep that is."""

    path: str
    references: tuple[str, ...] = ()
    depth: int = 0

    def into(self, step: str, *, reference: str | None = None) -> "_Place":
        references = (*self.references, reference) if reference else self.references
        return _Place(f"{self.path}{step}", references, self.depth + 1)


@dataclass(slots=True)
class _Bounding:
    """One pass over one schema."""

    root: JsonSchema
    max_chars: int
    nodes: int = field(default=0)

    def node(self, schema: Any, place: _Place) -> Node:
        """Return the bounded form of the sub-schema at ``place``."""
        self.nodes += 1
        if not isinstance(schema, Mapping):
            raise _refusal(place.path, "a schema must be an object")
        if place.depth > MAX_DEPTH or self.nodes > MAX_NODES:
            raise _refusal(place.path, f"the schema is deeper than {MAX_DEPTH} or has more than {MAX_NODES} parts")
        said = {str(key): value for key, value in schema.items() if key not in _ANNOTATIONS}
        match said:
            case {"$ref": reference}:
                _only(said, {"$ref"}, place)
                return self._referenced(reference, place)
            case {"anyOf": choices}:
                _only(said, {"anyOf"}, place)
                return self._choice(choices, place)
            case {"enum": _} | {"const": _}:
                return _constants(said, place)
            case {"type": [*types]}:
                return self._union(said, types, place)
            case {"type": str(kind)} if kind in _KEYWORDS:
                _only(said, {"type"} | _KEYWORDS[kind], place)
                return self._typed(kind, said, place)
            case {"type": kind}:
                raise _refusal(place.path, f"the type {kind!r} is unknown")
            case _:
                raise _refusal(
                    place.path, "a type, enum, const, anyOf or $ref is needed: without one anything would fit"
                )

    def _typed(self, kind: str, said: Node, place: _Place) -> Node:
        match kind:
            case "object":
                return self._object(said, place)
            case "array":
                return self._array(said, place)
            case "string":
                return _lengths(said, place, least="minLength", most="maxLength", limit=self.max_chars)
            case "integer" | "number":
                return _range(said, place)
            case _:
                return {"type": kind}

    def _object(self, said: Node, place: _Place) -> Node:
        properties, required = said.get("properties", {}), said.get("required", [])
        if not isinstance(properties, Mapping) or not all(isinstance(name, str) for name in properties):
            raise _refusal(place.path, "properties must be an object")
        if not isinstance(required, Sequence) or any(name not in list(properties) for name in required):
            raise _refusal(place.path, "required must list names of properties")
        if isinstance(more := said.get("additionalProperties"), Mapping) and more:
            raise _refusal(place.path, "properties of any name cannot be bounded: name them")
        return {
            "type": "object",
            "properties": {name: self.node(value, place.into(f".{name}")) for name, value in properties.items()},
            "required": list(dict.fromkeys(required)),
            "additionalProperties": False,
        }

    def _array(self, said: Node, place: _Place) -> Node:
        if "items" not in said:
            raise _refusal(place.path, "an array needs items: without them anything would fit")
        sizes = _lengths(said, place, least="minItems", most="maxItems", limit=MAX_ITEMS)
        return {**sizes, "items": self.node(said["items"], place.into("[]"))}

    def _choice(self, choices: Any, place: _Place) -> Node:
        if not isinstance(choices, Sequence) or not choices:
            raise _refusal(place.path, "anyOf must list schemas")
        return {"anyOf": [self.node(choice, place.into(f"|{n}")) for n, choice in enumerate(choices)]}

    def _union(self, said: Node, types: Sequence[Any], place: _Place) -> Node:
        """Give each of several types the keywords that it understands."""
        known = {kind: _KEYWORDS[kind] for kind in types if isinstance(kind, str) and kind in _KEYWORDS}
        if not known or len(known) < len(types):
            raise _refusal(place.path, f"the types {types!r} are not known, or not different")
        _only(said, {"type"}.union(*known.values()), place)
        alone = [
            {"type": kind, **{key: value for key, value in said.items() if key in keywords}}
            for kind, keywords in known.items()
        ]
        return self._choice(alone, place) if len(alone) > 1 else self.node(alone[0], place)

    def _referenced(self, reference: Any, place: _Place) -> Node:
        if not isinstance(reference, str) or not reference.startswith("#/"):
            raise _refusal(place.path, f"the reference {reference!r} leads out of the schema")
        if reference in place.references:
            raise _refusal(place.path, f"{reference} refers to itself, which has no end")
        target: Any = self.root
        for step in reference[2:].split("/"):
            name = step.replace("~1", "/").replace("~0", "~")
            if not isinstance(target, Mapping) or name not in target:
                raise _refusal(place.path, f"there is no {reference}")
            target = target[name]
        return self.node(target, place.into("", reference=reference))


def _constants(said: Node, place: _Place) -> Node:
    """Return the allowed constants, those that fit the ``type`` if one is given."""
    _only(said, {"type", "enum", "const"}, place)
    values = said.get("enum", [said.get("const")])
    if not isinstance(values, Sequence) or isinstance(values, str) or not all(map(_is_scalar, values)):
        raise _refusal(place.path, "constants must be strings, numbers, true, false or null")
    if "const" in said:
        values = [value for value in values if _same(value, said["const"])]
    if "type" in said:
        values = [value for value in values if _has_type(value, said["type"])]
    if not values:
        raise _refusal(place.path, "no constant is left to choose")
    return {"enum": list(values)}


def _lengths(said: Node, place: _Place, *, least: str, most: str, limit: int) -> Node:
    """Return the type with its least and greatest length; the greatest is there always and at most ``limit``."""
    low, high = said.get(least, 0), said.get(most, limit)
    if not _is_count(low) or not _is_count(high):
        raise _refusal(place.path, f"{least} and {most} must be whole numbers from 0")
    high = min(high, limit)
    if low > high:
        raise _refusal(place.path, f"{least} is {low}, and {high} is the most that is allowed")
    return {"type": said["type"], **({least: low} if low else {}), most: high}


def _range(said: Node, place: _Place) -> Node:
    """Return a numeric type with all its limits, ours where it has none or wider ones."""
    limits = {key: value for key, value in said.items() if key != "type"}
    for key, value in limits.items():
        if not _is_number(value):
            raise _refusal(place.path, f"{key} must be a number")
    floor, ceiling = (
        max(limits.get("minimum", -MAX_WHOLE), -MAX_WHOLE),
        min(limits.get("maximum", MAX_WHOLE), MAX_WHOLE),
    )
    if floor > ceiling:
        raise _refusal(place.path, f"no number lies between {floor} and {ceiling}")
    return {"type": said["type"], **limits, "minimum": floor, "maximum": ceiling}


def _only(said: Node, known: set[str] | frozenset[str], place: _Place) -> None:
    if unknown := sorted(said.keys() - known):
        raise _refusal(place.path, f"{', '.join(unknown)} cannot be used here")


def _has_type(value: object, kinds: Any) -> bool:
    names = [kinds] if isinstance(kinds, str) else kinds
    return any(
        isinstance(value, _PYTHON_TYPES.get(name, ())) and (name == "boolean" or not isinstance(value, bool))
        for name in names
    )


def _same(one: object, other: object) -> bool:
    return type(one) is type(other) and one == other


def _is_scalar(value: object) -> bool:
    return value is None or isinstance(value, str | bool) or _is_number(value)


def _is_number(value: object) -> bool:
    return (isinstance(value, int) and not isinstance(value, bool)) or (
        isinstance(value, float) and math.isfinite(value)
    )


def _is_count(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and value >= 0


def _refusal(path: str, why: str) -> StageError:
    return StageError(ErrorCode.BAD_SCHEMA, f"{path}: {why}")
