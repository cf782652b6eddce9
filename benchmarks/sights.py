"""Scores what was seen: objects that the truth lists, labels that it does not, and the kind of place."""

import tomllib
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from schemas.result import Label, ObjectSummary

HERE = Path(__file__).parent


@dataclass(frozen=True, slots=True)
class ListedObject:
    """A COCO class that the manifest says is there, between ``t_start_s`` and ``t_end_s``."""

    label: str
    t_start_s: float = 0.0
    t_end_s: float = float("inf")


@dataclass(frozen=True, slots=True)
class ObjectTruth:
    """What can be seen in one clip. ``complete``: there is nothing else of COCO but what is listed or ``allowed``."""

    listed: tuple[ListedObject, ...]
    allowed: frozenset[str] = frozenset()
    complete: bool = False


@dataclass(frozen=True, slots=True)
class ObjectScore:
    """Labels found and missed of those listed; ``false``: labels of things that are not there (None: not judged)."""

    found: tuple[str, ...]
    missed: tuple[str, ...]
    false: tuple[str, ...] | None


def load_object_truth(path: Path = HERE / "object_truth.toml") -> dict[str, ObjectTruth]:
    """Read what can be seen, by the clip's name in the manifest."""
    return {name: _object_truth(entry) for name, entry in tomllib.loads(path.read_text("utf-8")).items()}


def _object_truth(entry: dict[str, Any]) -> ObjectTruth:
    listed = tuple(ListedObject(thing["label"], *thing.get("t", ())) for thing in entry["objects"])
    return ObjectTruth(listed, frozenset(entry.get("allowed", ())), entry["complete"])


def score_objects(truth: ObjectTruth, seen: Iterable[ObjectSummary]) -> ObjectScore:
    """Compare. A listed object is found when its label is there at a time when the object is."""
    seen = tuple(seen)
    found = tuple(thing.label for thing in truth.listed if any(_shows(summary, thing) for summary in seen))
    missed = tuple(thing.label for thing in truth.listed if thing.label not in found)
    known = {thing.label for thing in truth.listed} | truth.allowed
    strange = tuple(sorted({summary.label for summary in seen} - known))
    return ObjectScore(found, missed, strange if truth.complete else None)


def _shows(summary: ObjectSummary, thing: ListedObject) -> bool:
    overlaps = summary.t_start_s <= thing.t_end_s and summary.t_end_s >= thing.t_start_s
    return summary.label == thing.label and overlaps


def load_scene_truth(path: Path = HERE / "scene_truth.toml") -> dict[str, frozenset[str]]:
    """Read the sensible kinds of place of each filmed clip, by its name in the manifest."""
    return {name: frozenset(labels) for name, labels in tomllib.loads(path.read_text("utf-8")).items()}


def is_sensible(sensible: frozenset[str], scene: tuple[Label, ...]) -> bool:
    """Whether the best label names a place that people would accept."""
    return bool(scene) and scene[0].label in sensible
