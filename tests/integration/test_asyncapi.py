"""The published contract, by the judgement of the specification's own parser."""

import shutil
import subprocess
from pathlib import Path

import pytest

REPO = Path(__file__).resolve().parents[2]
CHECK = REPO / "build" / "asyncapi" / "check.mjs"


@pytest.fixture
def node() -> str:
    found = shutil.which("node")
    if found is None or not CHECK.with_name(".ready").exists():
        pytest.skip("the AsyncAPI parser is not there: make contract-check")
    return found


def judged(node: str, document: Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run([node, CHECK, document], capture_output=True, text=True, timeout=60, check=False)


def test_the_document_and_its_schemas_are_valid(node):
    done = judged(node, REPO / "docs" / "asyncapi.yaml")
    assert done.returncode == 0, done.stdout
    assert "is valid AsyncAPI 3.0.0" in done.stdout


def test_a_wrong_document_would_be_noticed(node, tmp_path):
    shutil.copytree(REPO / "docs" / "schemas", tmp_path / "schemas")
    text = (REPO / "docs" / "asyncapi.yaml").read_text("utf-8")
    (tmp_path / "asyncapi.yaml").write_text(text.replace('action: "receive"', 'action: "think"'), "utf-8")
    assert judged(node, tmp_path / "asyncapi.yaml").returncode == 1
