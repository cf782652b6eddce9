"""What a local broker is made of: Java, jars and ports. Nothing here starts one."""

import hashlib
import socket
from pathlib import Path

import pytest

import scripts.kafka.jars
from scripts.kafka.errors import BrokerFailed, KafkaUnavailable
from scripts.kafka.jars import fetched, wrong_files
from scripts.kafka.java import java
from scripts.kafka.ports import free_ports

GOOD = b"good\n"


@pytest.fixture
def programs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The only folder on the path, empty."""
    folder = tmp_path / "bin"
    folder.mkdir()
    monkeypatch.setenv("PATH", str(folder))
    return folder


@pytest.fixture
def one_jar(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Kafka is one jar, with ``GOOD`` in it."""
    checksums = tmp_path / "jars.sha256"
    checksums.write_text(f"{hashlib.sha256(GOOD).hexdigest()}  kafka.jar\n")
    monkeypatch.setattr(scripts.kafka.jars, "CHECKSUMS", checksums)


def install(folder: Path, name: str, script: str) -> None:
    (folder / name).write_text(f"#!/bin/sh\n{script}\n")
    (folder / name).chmod(0o755)


def maven_that_brings(content: str) -> str:
    target = 'for word; do case $word in -DoutputDirectory=*) to=${word#*=};; esac; done; /bin/mkdir "$to"'
    return f'{target}; echo {content} > "$to/kafka.jar"'


def test_without_java_it_is_said_what_to_install(programs):
    with pytest.raises(KafkaUnavailable, match="apt-get install default-jre-headless"):
        java()


def test_an_old_java_is_refused_by_its_version(programs):
    install(programs, "java", "echo 'openjdk version \"11.0.2\" 2019-01-15' >&2")
    with pytest.raises(KafkaUnavailable, match=r"Java 17 or newer.*11\.0\.2"):
        java()


@pytest.mark.parametrize("version", ["17.0.15", "21", "25-ea"])
def test_a_new_java_is_taken(programs, version):
    install(programs, "java", f"echo 'openjdk version \"{version}\" 2025-01-15' >&2")
    assert java() == str(programs / "java")


def test_without_maven_it_is_said_what_to_install(programs, tmp_path):
    with pytest.raises(KafkaUnavailable, match="apt-get install maven"):
        fetched(tmp_path / "cache")


def test_what_maven_says_is_shown_when_it_fails(programs, tmp_path):
    install(programs, "mvn", "echo 'Could not resolve host'; exit 1")
    with pytest.raises(KafkaUnavailable, match="Could not resolve host"):
        fetched(tmp_path / "cache")


def test_jars_are_fetched_once(programs, tmp_path, one_jar):
    install(programs, "mvn", maven_that_brings("good") + f"; echo ran >> {tmp_path}/runs")
    libs = fetched(tmp_path / "cache")
    assert fetched(tmp_path / "cache") == libs
    assert (tmp_path / "runs").read_text() == "ran\n"
    assert sorted(path.name for path in libs.parent.iterdir()) == ["libs", "lock"]


def test_other_jars_than_the_pinned_ones_are_refused_and_not_kept(programs, tmp_path, one_jar):
    install(programs, "mvn", maven_that_brings("bad"))
    with pytest.raises(BrokerFailed, match=r"not those of jars.sha256: kafka.jar"):
        fetched(tmp_path / "cache")
    assert not (tmp_path / "cache" / "libs").exists()


def test_missing_damaged_and_foreign_jars_are_noticed(tmp_path, one_jar):
    assert wrong_files(tmp_path / "nowhere") == ["kafka.jar"]
    libs = tmp_path / "libs"
    libs.mkdir()
    (libs / "kafka.jar").write_bytes(GOOD)
    assert wrong_files(libs) == []
    (libs / "other.jar").write_bytes(GOOD)
    assert wrong_files(libs) == ["other.jar"]
    (libs / "kafka.jar").write_text("bad")
    assert set(wrong_files(libs)) == {"kafka.jar", "other.jar"}


def test_free_ports_are_different_and_not_listened_on():
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        listener.listen()
        ports = free_ports(50)
        assert listener.getsockname()[1] not in ports
    assert len(set(ports)) == 50


def test_free_ports_lie_below_those_of_outgoing_connections():
    first = int(Path("/proc/sys/net/ipv4/ip_local_port_range").read_text().split()[0])
    assert max(free_ports(10)) < first
