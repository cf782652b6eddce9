"""``halfsecond models``: words and exit codes."""

import json
from pathlib import Path
from types import SimpleNamespace

import pytest
from click.testing import Result
from typer.testing import CliRunner

from pipeline import models_cli
from pipeline.models_cli import models_app
from pipeline.weights.pull import Puller
from pipeline.weights.store import WeightStore


class Cli:
    """The commands over a small catalogue."""

    def __init__(self, cache_dir: Path) -> None:
        self.settings = SimpleNamespace(cache_dir=cache_dir, weights_source=None)

    def __call__(self, *words: str) -> Result:
        return CliRunner().invoke(models_app(lambda: self.settings), list(words))


@pytest.fixture
def cli(store: WeightStore, monkeypatch: pytest.MonkeyPatch) -> Cli:
    monkeypatch.setattr(models_cli, "load_catalog", lambda: store.catalog)
    return Cli(store.root.parent)


def test_pull_from_a_folder_then_everything_is_listed_as_present(cli: Cli, folder: Path) -> None:
    done = cli("pull", "--from", str(folder))
    assert (done.exit_code, done.stdout) == (0, "Models in place and whole: 2 (3.0 kB).\n")
    listed = cli("list")
    assert listed.exit_code == 0
    assert listed.stdout.count("present") == 2
    assert "registry: tiny-ear-1==1.0, tiny-ear-2==1.0" in listed.stdout


def test_the_source_may_be_a_setting(cli: Cli, folder: Path) -> None:
    cli.settings.weights_source = str(folder)
    assert cli("pull", "eye").exit_code == 0


def test_quiet_is_quiet(cli: Cli, folder: Path) -> None:
    done = cli("pull", "--quiet", "--from", str(folder))
    assert (done.exit_code, done.output) == (0, "")


def test_list_says_how_to_get_what_is_not_there(cli: Cli) -> None:
    out = cli("list").stdout
    assert "run: halfsecond models pull\n" in out
    assert "halfsecond models pull yours --from FILE_OR_URL (official file: https://models.example/yours.onnx)" in out


def test_list_for_programs(cli: Cli, folder: Path) -> None:
    cli("pull", "eye", "--from", str(folder))
    rows = {row["name"]: row for row in json.loads(cli("list", "--json").stdout)}
    assert {name: row["state"] for name, row in rows.items()} == {
        "ear": "missing",
        "eye": "present",
        "yours": "missing",
    }
    assert (rows["eye"]["bytes"], rows["eye"]["licence"], rows["eye"]["hint"]) == (3000, "MIT", None)


def test_verify_fails_on_damage_and_names_the_file(cli: Cli, folder: Path, store: WeightStore) -> None:
    cli("pull", "--from", str(folder))
    assert cli("verify").exit_code == 0, "an optional model that is not there is no damage"
    (store.root / "eye" / "eye.onnx").write_bytes(b"EYE" * 1000)
    done = cli("verify")
    assert done.exit_code == 1
    assert "damaged  eye/eye.onnx" in done.stdout
    assert "halfsecond models pull" in done.stderr
    assert cli("verify", "ear").exit_code == 0
    assert cli("pull", "--from", str(folder)).exit_code == 0
    assert cli("verify").exit_code == 0


def test_verify_fails_on_what_is_missing(cli: Cli) -> None:
    assert cli("verify", "ear").exit_code == 1
    assert cli("verify", "yours").exit_code == 1


@pytest.mark.parametrize("words", [("pull", "nose"), ("verify", "nose"), ("pull", "--frm", "x"), ("pull", "yours")])
def test_what_cannot_be_meant_is_a_usage_error(cli: Cli, words: tuple[str, ...]) -> None:
    assert cli(*words).exit_code == 2


def test_a_failed_pull_exits_1_and_says_why(cli: Cli, tmp_path: Path) -> None:
    done = cli("pull", "--from", str(tmp_path / "none"))
    assert done.exit_code == 1
    assert "is not a folder" in done.stderr


def test_a_folder_that_cannot_be_made_exits_1(cli: Cli, folder: Path, store: WeightStore) -> None:
    store.root.write_text("a file, where the folder should be")
    assert cli("pull", "--from", str(folder)).exit_code == 1


def test_ctrl_c_exits_130_and_says_how_to_go_on(cli: Cli, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupted(*_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(Puller, "pull", interrupted)
    done = cli("pull", "--from", str(folder))
    assert done.exit_code == 130
    assert "run the same command again" in done.stderr


def test_a_file_of_ones_own_is_taken_and_its_hash_told(cli: Cli, tmp_path: Path) -> None:
    (tmp_path / "mine.onnx").write_bytes(b"mine")
    done = cli("pull", "yours", "--from", str(tmp_path / "mine.onnx"))
    assert done.exit_code == 0
    assert "compare its sha256" in done.stdout
    assert cli("verify", "yours").exit_code == 0
