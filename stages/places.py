"""Kinds of place, and how a classifier that names things speaks of them."""

import functools
import tomllib
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from schemas.result import Label
from stages.vocabulary import class_numbers, shipped


@dataclass(frozen=True, slots=True)
class Place:
    """One kind. ``classes``: the ImageNet classes met there. ``within``: the wider kind it belongs to.

    ``furnished_by``: COCO classes one of which must be seen before the kind is named; empty when none need be.
    """

    label: str
    classes: frozenset[int]
    within: str | None
    furnished_by: frozenset[str]


class Places:
    """The table of all kinds."""

    def __init__(self, kinds: Sequence[Place]) -> None:
        """Take the kinds. A wide one takes in the classes of its narrow ones, each class once."""
        self.kinds = tuple(kinds)
        self._columns = [
            np.array(sorted(kind.classes.union(*(k.classes for k in kinds if k.within == kind.label))), np.int64)
            for kind in kinds
        ]

    @classmethod
    @functools.cache
    def load(cls) -> "Places":
        """Return the table that comes with the package, read once: it cannot change while the process lives."""
        rows = tomllib.loads(shipped("places.toml").read_text("utf-8"))["place"]
        return cls(
            [
                Place(
                    label=row["label"],
                    classes=frozenset(class_numbers(row["imagenet"])),
                    within=row.get("within"),
                    furnished_by=frozenset(row.get("furnished_by", ())),
                )
                for row in rows
            ]
        )

    def of(self, probabilities: npt.NDArray[np.float32], *, floor: float) -> tuple[Label, ...]:
        """Return the kinds whose classes sum up to at least ``floor`` in ``probabilities`` (1000,), best first."""
        sums = [(kind.label, float(probabilities[c].sum())) for kind, c in zip(self.kinds, self._columns, strict=True)]
        return ranked(dict(sums), floor=floor)

    def unfurnished(self, seen: frozenset[str]) -> frozenset[str]:
        """Return the kinds that the objects ``seen`` do not bear out."""
        return frozenset(kind.label for kind in self.kinds if kind.furnished_by and not kind.furnished_by & seen)

    def wider(self, label: str) -> str | None:
        """Return the kind that ``label`` belongs to."""
        return next((kind.within for kind in self.kinds if kind.label == label), None)


def ranked(scores: dict[str, float], *, floor: float) -> tuple[Label, ...]:
    """Return what scores at least ``floor``, best first."""
    best_first = sorted(scores.items(), key=lambda item: (-item[1], item[0]))
    return tuple(Label(label=label, score=min(1.0, score)) for label, score in best_first if score >= floor)
