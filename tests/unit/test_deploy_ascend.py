"""The Ascend files say what the code would do there. Nothing here has seen an NPU."""

import re
from pathlib import Path
from typing import Any

import pytest
import yaml

from llm_engine.backends.vllm_args import VllmSettings, environment, server_options
from llm_engine.backends.vllm_platform import Platform

FOLDER = Path(__file__).resolve().parents[2] / "deploy" / "ascend"
SETTINGS = VllmSettings(Path("/models/llm"), Platform.ASCEND)


@pytest.fixture(scope="module")
def objects() -> dict[str, Any]:
    """The manifest's objects by kind."""
    return {found["kind"]: found for found in yaml.safe_load_all((FOLDER / "vllm.yaml").read_text("utf-8"))}


@pytest.fixture(scope="module")
def pod(objects: dict[str, Any]) -> dict[str, Any]:
    spec: dict[str, Any] = objects["Deployment"]["spec"]["template"]["spec"]
    return spec


@pytest.fixture(scope="module")
def container(pod: dict[str, Any]) -> dict[str, Any]:
    (only,) = pod["containers"]
    return only


def test_the_options_are_those_of_the_code(container):
    words = [word for option in container["args"] for word in option.split("=", 1)]
    assert words[4:] == server_options(SETTINGS)
    assert words[:4] == ["--host", "0.0.0.0", "--port", "8000"]


def test_the_image_sets_the_environment_of_the_code():
    text = (FOLDER / "Dockerfile").read_text("utf-8").replace("\\\n", " ")
    (line,) = re.findall(r"^ENV (.*)$", text, re.MULTILINE)
    assert dict(pair.split("=", 1) for pair in line.split()) == environment(SETTINGS)


def test_the_image_is_the_documented_one():
    assert "FROM quay.io/ascend/vllm-ascend:v0.23.0\n" in (FOLDER / "Dockerfile").read_text("utf-8")


def test_the_service_finds_the_pods(objects):
    labels = objects["Deployment"]["spec"]["template"]["metadata"]["labels"]
    assert objects["Service"]["spec"]["selector"].items() <= labels.items()
    assert objects["Deployment"]["spec"]["selector"]["matchLabels"].items() <= labels.items()


def test_every_mount_has_its_volume(pod, container):
    assert {mount["name"] for mount in container["volumeMounts"]} == {volume["name"] for volume in pod["volumes"]}


def test_a_card_is_asked_for_and_shared_memory_is_given(pod, container):
    assert container["resources"]["limits"]["huawei.com/Ascend910"] == "1"
    shm = next(volume for volume in pod["volumes"] if volume["name"] == "shm")
    assert shm["emptyDir"] == {"medium": "Memory", "sizeLimit": "1Gi"}


def test_a_slow_start_is_not_taken_for_a_dead_process(container):
    probe = container["startupProbe"]
    assert probe["periodSeconds"] * probe["failureThreshold"] >= 600
    assert {"startupProbe", "readinessProbe", "livenessProbe"} <= container.keys()


def test_the_readme_says_that_nothing_has_run_on_an_npu():
    assert "has run on an NPU" in (FOLDER / "README.md").read_text("utf-8")
