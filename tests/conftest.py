"""Fixtures shared by the whole pyramid: the media with ground truth, and the weights."""

import json
import os
import signal
from pathlib import Path
from typing import Any

import pytest

REPO = Path(__file__).resolve().parents[1]
SHIPPED_MEDIA = REPO / "tests" / "media"
SHARED_MEDIA = REPO.parent / "shared" / "media"


def media_root() -> Path:
    """The full set of clips when it lies beside the checkout, else the few that ship with the project."""
    return SHARED_MEDIA if (SHARED_MEDIA / "manifest.json").is_file() else SHIPPED_MEDIA


def manifest() -> list[dict[str, Any]]:
    """Ground truth of every clip that is present."""
    entries: list[dict[str, Any]] = json.loads((media_root() / "manifest.json").read_text("utf-8"))
    return entries


def weights_dir() -> Path:
    """Where pulled weights lie (the same rule as in pipeline/settings.py)."""
    cache = os.environ.get("HALFSECOND_CACHE_DIR") or Path.home() / ".cache" / "halfsecond"
    return Path(cache) / "weights"


def pytest_configure() -> None:
    """Hear Ctrl-C even as a shell's background job, which ignores it: the commands under test would inherit that."""
    signal.signal(signal.SIGINT, signal.default_int_handler)


def pytest_report_header() -> str:
    return f"media: {media_root()}; weights: {weights_dir()}"


@pytest.fixture(scope="session")
def clips() -> Path:
    """Folder of the clips; paths in the manifest are relative to it."""
    return media_root()


@pytest.fixture(scope="session")
def clip_truth() -> dict[str, dict[str, Any]]:
    """Manifest entries by path."""
    return {entry["path"]: entry for entry in manifest()}


@pytest.fixture(scope="session")
def weights() -> Path:
    """Folder of the pulled weights; the test is skipped, visibly, without them."""
    folder = weights_dir()
    if not folder.is_dir():
        pytest.skip(f"no weights in {folder}: run 'halfsecond models pull'")
    return folder
