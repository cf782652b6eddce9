"""The container files say the same as the code and as each other. No container engine has run them."""

import json
import re
import tomllib
from pathlib import Path
from typing import Any

import pytest
import yaml

from pipeline.settings import Settings
from scripts.kafka.broker import CLUSTER_ID, PROPERTIES

REPO = Path(__file__).resolve().parents[2]
DEPLOY = REPO / "deploy"
BROKER_ADDRESS = "kafka:19092"


@pytest.fixture(scope="module")
def services() -> dict[str, Any]:
    found: dict[str, Any] = yaml.safe_load((DEPLOY / "compose.yaml").read_text("utf-8"))["services"]
    return found


@pytest.fixture(scope="module")
def dockerfile() -> str:
    return (DEPLOY / "Dockerfile").read_text("utf-8").replace("\\\n", " ")


def instructions(dockerfile: str, name: str) -> list[str]:
    return re.findall(rf"^{name} (.*)$", dockerfile, re.MULTILINE)


def test_the_broker_has_the_version_of_the_local_one(services):
    version = re.search(r"kafka_2.13</artifactId>\s*<version>(.*?)<", (REPO / "scripts/kafka/pom.xml").read_text())
    assert version is not None
    assert services["kafka"]["image"] == f"apache/kafka:{version[1]}"


def test_the_broker_is_set_up_like_the_local_one(services):
    environment = services["kafka"]["environment"]
    assert environment["CLUSTER_ID"] == CLUSTER_ID
    local = dict(line.split("=", 1) for line in PROPERTIES.splitlines())
    for name in ("auto.create.topics.enable", "group.initial.rebalance.delay.ms", "process.roles", "node.id"):
        assert environment["KAFKA_" + name.replace(".", "_").upper()] == local[name]
    assert all(environment[key] == "1" for key in environment if key.endswith(("REPLICATION_FACTOR", "MIN_ISR")))


def test_every_listener_has_an_address_and_a_protocol(services):
    environment = services["kafka"]["environment"]
    listeners = {entry.partition("://")[0] for entry in environment["KAFKA_LISTENERS"].split(",")}
    protocols = {entry.partition(":")[0] for entry in environment["KAFKA_LISTENER_SECURITY_PROTOCOL_MAP"].split(",")}
    advertised = dict(entry.split("://") for entry in environment["KAFKA_ADVERTISED_LISTENERS"].split(","))
    assert listeners == protocols == {*advertised, environment["KAFKA_CONTROLLER_LISTENER_NAMES"]}
    assert advertised["INSIDE"] == BROKER_ADDRESS


def test_clients_inside_are_given_the_inner_address(services):
    assert services["topics"]["environment"]["KAFKA_BOOTSTRAP"] == BROKER_ADDRESS
    assert services["worker"]["environment"]["HALFSECOND_KAFKA_BOOTSTRAP"] == BROKER_ADDRESS


def test_the_worker_waits_for_topics_and_weights(services):
    assert services["worker"]["depends_on"] == {
        name: {"condition": "service_completed_successfully"} for name in ("topics", "weights")
    }
    assert services["topics"]["depends_on"] == {"kafka": {"condition": "service_healthy"}}


def test_nothing_is_published_beyond_this_host(services):
    ports = [port for service in services.values() for port in service.get("ports", [])]
    assert ports
    assert all(port.startswith("127.0.0.1:") for port in ports)


def test_the_settings_given_to_the_worker_exist_and_are_valid(services, monkeypatch):
    environment = services["worker"]["environment"]
    for name, value in environment.items():
        assert name.removeprefix("HALFSECOND_").lower() in Settings.model_fields
        monkeypatch.setenv(name, value)
    (root,) = Settings().fetch_roots
    assert any(f":{root}:ro" in volume for volume in services["worker"]["volumes"])


def test_what_the_image_copies_is_let_in_and_exists(dockerfile):
    ignored = (DEPLOY / "Dockerfile.dockerignore").read_text("utf-8").splitlines()
    let_in = {line.removeprefix("!") for line in ignored if line.startswith("!")}
    copied = {word for line in instructions(dockerfile, "COPY") if "--from" not in line for word in line.split()[:-1]}
    assert copied == let_in
    assert all((REPO / path).exists() for path in copied)


def test_the_image_holds_every_package_of_the_distribution(dockerfile):
    project = tomllib.loads((REPO / "pyproject.toml").read_text("utf-8"))
    packages = {pattern.rstrip("*") for pattern in project["tool"]["setuptools"]["packages"]["find"]["include"]}
    assert packages <= {line.split()[0] for line in instructions(dockerfile, "COPY")}


def test_the_image_installs_pinned_packages_and_does_not_run_as_root(dockerfile):
    assert "--require-hashes -r requirements/core.txt" in dockerfile
    assert instructions(dockerfile, "USER") == ["10001"]


def test_the_image_tells_its_health_where_the_port_is_published(dockerfile, services):
    assert instructions(dockerfile, "EXPOSE") == ["8080"]
    assert "8080" in instructions(dockerfile, "HEALTHCHECK")[0]
    assert "/livez" in instructions(dockerfile, "HEALTHCHECK")[0]
    assert services["worker"]["ports"] == ["127.0.0.1:8080:8080"]


def test_weights_are_kept_in_the_volume(dockerfile, services):
    (cache,) = re.findall(r"HALFSECOND_CACHE_DIR=(\S+)", dockerfile)
    assert instructions(dockerfile, "VOLUME") == [cache]
    assert all(f"weights:{cache}" in services[name]["volumes"] for name in ("weights", "worker"))


def test_the_commands_are_lists(dockerfile):
    for line in (*instructions(dockerfile, "ENTRYPOINT"), *instructions(dockerfile, "CMD")):
        assert json.loads(line), "a shell in between would swallow SIGTERM"
