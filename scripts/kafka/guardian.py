"""A process that must not outlive this one, however this one ends."""

import os
import signal
import subprocess
from contextlib import suppress
from pathlib import Path
from typing import IO

KILL_WHEN_INPUT_ENDS = 'read -r _; kill -9 "-$1"'


class GuardedProcess:
    """A process group, and a shell that kills it when this Python process is gone.

    The shell reads a pipe that only this process holds: the kernel closes it even after SIGKILL. (PR_SET_PDEATHSIG
    would be shorter, but it fires when the *thread* that started the child ends.)
    """

    def __init__(self, command: list[str], *, cwd: Path, output: IO[bytes]) -> None:
        self._process = subprocess.Popen(
            command,
            cwd=cwd,
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
            start_new_session=True,  # a group of its own, which a Ctrl-C on the terminal does not reach
        )
        self._shell = subprocess.Popen(
            ["/bin/sh", "-c", KILL_WHEN_INPUT_ENDS, "sh", str(self._process.pid)],
            stdin=subprocess.PIPE,
            start_new_session=True,
        )

    @property
    def running(self) -> bool:
        """Whether it has not ended."""
        return self._process.poll() is None

    def wait(self) -> None:
        """Wait until it ends."""
        self._process.wait()

    def end(self, *, patience_s: float) -> None:
        """Ask it to end, and kill it when it has not after ``patience_s``; at once with 0. Safe to call twice."""
        if self.running and patience_s > 0:
            self._process.terminate()
            with suppress(subprocess.TimeoutExpired):
                self._process.wait(patience_s)
        if self.running:
            os.killpg(self._process.pid, signal.SIGKILL)
            self._process.wait()
        self._dismiss_shell()

    def _dismiss_shell(self) -> None:
        self._shell.kill()  # before its input ends: the number of the group may be somebody else's by now
        self._shell.communicate()
