"""What the networks can name: COCO's classes, ImageNet's classes, and which of them mean the same."""

import tomllib
from dataclasses import dataclass
from functools import cached_property
from importlib.resources import files
from pathlib import Path

IMAGENET_CLASSES = 1000


def shipped(name: str) -> Path:
    """Path of a data file that comes with the package."""
    return Path(str(files("stages") / "data" / name))


def class_numbers(text: str) -> tuple[int, ...]:
    """Read a list of ImageNet classes such as ``"7-9, 12"``. Raises ``ValueError`` when a number is out of range."""
    numbers: list[int] = []
    for part in filter(None, (p.strip() for p in text.replace("\n", " ").split(","))):
        first, _, last = part.partition("-")
        numbers.extend(range(int(first), int(last or first) + 1))
    if any(not 0 <= number < IMAGENET_CLASSES for number in numbers):
        raise ValueError(f"not an ImageNet class in {text!r}")
    return tuple(numbers)


@dataclass(frozen=True)
class Coco:
    """COCO's 80 classes in their official order, each with the ImageNet classes that show the same thing (or none)."""

    twins: dict[str, tuple[int, ...]]

    @classmethod
    def load(cls) -> "Coco":
        """Read the table that comes with the package."""
        table = tomllib.loads(shipped("coco.toml").read_text("utf-8"))["imagenet"]
        return cls({label: class_numbers(numbers) for label, numbers in table.items()})

    @cached_property
    def labels(self) -> tuple[str, ...]:
        """The class names."""
        return tuple(self.twins)


def imagenet_names() -> tuple[str, ...]:
    """Return the names of the 1000 classes, in order."""
    return tuple(shipped("imagenet_names.txt").read_text("utf-8").splitlines())
