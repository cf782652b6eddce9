"""A guarded process ends with its parent, whatever ends that."""

import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from scripts.kafka.guardian import GuardedProcess

REPO = Path(__file__).resolve().parents[2]
PATIENCE_S = 20.0

PARENT = """
import sys, tempfile, threading, time
from pathlib import Path
from scripts.kafka.guardian import GuardedProcess

def start():
    command = ["sh", "-c", "echo $$ && exec sleep 60"]
    started.append(GuardedProcess(command, cwd=Path("/"), output=sys.stdout.buffer))

started = []
thread = threading.Thread(target=start)
thread.start()
thread.join()
time.sleep(60)
"""


@pytest.fixture
def parent() -> Iterator["subprocess.Popen[str]"]:
    """A Python process with a guarded child, started by a thread that has ended. It tells the child's number."""
    with subprocess.Popen([sys.executable, "-c", PARENT], cwd=REPO, stdout=subprocess.PIPE, text=True) as process:
        yield process
        process.kill()


@pytest.fixture
def guarded(tmp_path: Path) -> Iterator[GuardedProcess]:
    """A process that does not end when it is asked to."""
    with (tmp_path / "output").open("wb") as output:
        process = GuardedProcess(["sh", "-c", "trap '' TERM; sleep 60; true"], cwd=tmp_path, output=output)
    yield process
    process.end(patience_s=0)


def is_there(pid: str) -> bool:
    status = Path("/proc") / pid / "stat"
    return status.exists() and status.read_text("ascii").rpartition(") ")[2][0] != "Z"


def test_it_dies_when_its_parent_is_killed(parent: "subprocess.Popen[str]") -> None:
    assert parent.stdout is not None
    child = parent.stdout.readline().strip()
    assert is_there(child)
    parent.kill()
    give_up_s = time.monotonic() + PATIENCE_S
    while is_there(child):
        assert time.monotonic() < give_up_s, "the child still runs"
        time.sleep(0.01)


def test_it_outlives_the_thread_that_started_it(parent: "subprocess.Popen[str]") -> None:
    assert parent.stdout is not None
    child = parent.stdout.readline().strip()
    time.sleep(0.2)
    assert is_there(child)


def test_it_is_killed_when_it_does_not_end_in_time(guarded: GuardedProcess) -> None:
    assert guarded.running
    guarded.end(patience_s=0.1)
    assert not guarded.running


def test_ending_twice_is_safe(guarded: GuardedProcess) -> None:
    guarded.end(patience_s=0)
    guarded.end(patience_s=0)
    assert not guarded.running
