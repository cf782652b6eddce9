"""Starts contestants on demand, each a child process that stays warm, and asks them things one at a time."""

import json
import os
import select
import signal
import subprocess
import tempfile
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import IO, Any, Self

from benchmarks.media import REPO
from benchmarks.samples import Cost

PATIENCE_S = 600.0
"""For one answer. The longest are the oracle's texts and a soak; the first start of vLLM takes a minute."""

ENDING_S = 10.0


class NotMeasured(Exception):
    """Raised when a contestant cannot take part. The message says why, in one line."""


@dataclass(frozen=True, slots=True)
class Spec:
    """How a contestant is started: the python of its environment, its module, the options of its ``open_host``.

    ``missing``: what to do when that python is not there.
    """

    python: Path
    module: str
    options: dict[str, Any]
    missing: str = ""


class Contestant:
    """A warm child process."""

    def __init__(self, process: subprocess.Popen[bytes], log: IO[bytes]) -> None:
        self._process = process
        self._log = log
        self.about: str = self._answer()["about"]

    def ask(self, do: str, **arguments: Any) -> tuple[Cost, Any]:
        """Let it do something; return what that cost and what was found. Raises ``NotMeasured``."""
        assert self._process.stdin is not None
        try:
            self._process.stdin.write(json.dumps({"do": do, **arguments}).encode() + b"\n")
            self._process.stdin.flush()
        except BrokenPipeError:
            raise NotMeasured(self._last_words()) from None
        answer = self._answer()
        if "error" in answer:
            raise NotMeasured(answer["error"])
        return Cost(**answer["cost"]), answer["found"]

    def _answer(self) -> dict[str, Any]:
        assert self._process.stdout is not None
        ready, _, _ = select.select([self._process.stdout], [], [], PATIENCE_S)
        if not ready:
            self._process.kill()  # else the late answer would be taken for the next one
            raise NotMeasured(f"no answer within {PATIENCE_S:.0f} s")
        line = self._process.stdout.readline()
        if not line:
            raise NotMeasured(self._last_words())
        answer: dict[str, Any] = json.loads(line)
        return answer

    def _last_words(self) -> str:
        self._log.seek(0)
        lines = self._log.read().decode("utf-8", "replace").strip().splitlines()
        return f"ended with code {self._process.wait()}: {lines[-1].strip() if lines else 'it said nothing'}"


class Contestants:
    """All that can be started, by name. Whoever was started is ended with the block, whatever happened."""

    def __init__(self, specs: dict[str, Spec]) -> None:
        self._specs = specs
        self._open: dict[str, Contestant] = {}
        self.about: dict[str, str] = {}
        """What those who took part say of themselves."""
        self._refused: dict[str, str] = {}
        self._processes: dict[str, subprocess.Popen[bytes]] = {}
        self._logs: list[IO[bytes]] = []

    def get(self, name: str) -> Contestant:
        """Return the contestant, started if need be. Raises ``NotMeasured``, for the same reason each time."""
        if name in self._refused:
            raise NotMeasured(self._refused[name])
        if name not in self._open:
            try:
                self._open[name] = self._start(name)
                self.about[name] = self._open[name].about
            except NotMeasured as reason:
                self._refused[name] = str(reason)
                self.end(name)
                raise
        return self._open[name]

    def end(self, name: str) -> None:
        """End its process and all that it started. One that is not there is ignored."""
        self._open.pop(name, None)
        process = self._processes.pop(name, None)
        if process is None:
            return
        with suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGTERM)
        try:
            process.wait(ENDING_S)
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)
            process.wait()
        for pipe in (process.stdin, process.stdout):
            if pipe is not None:
                pipe.close()

    def _start(self, name: str) -> Contestant:
        spec = self._specs[name]
        if not spec.python.is_file():
            raise NotMeasured(f"{spec.python} is missing ({spec.missing})")
        log = tempfile.TemporaryFile()  # noqa: SIM115 - closed in __exit__
        self._logs.append(log)
        self._processes[name] = subprocess.Popen(
            [str(spec.python), "-m", "benchmarks.llm_child", spec.module, json.dumps(spec.options)],
            cwd=REPO,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=log,
            bufsize=0,
            start_new_session=True,  # so that it can be ended with all its children
        )
        return Contestant(self._processes[name], log)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for name in list(self._processes):
            self.end(name)
        for log in self._logs:
            log.close()
