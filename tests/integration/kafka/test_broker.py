"""The broker that the tests and ``make kafka`` start is a real one: it keeps what it acknowledged, and it tidies up."""

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path

import pytest
from kafka import KafkaAdminClient, KafkaConsumer, KafkaProducer
from kafka.admin import ConfigResource, ConfigResourceType

import scripts.kafka.broker
from pipeline.bus.topics import Topics
from scripts.kafka.broker import KafkaBroker
from scripts.kafka.errors import BrokerFailed
from scripts.kafka.ports import free_ports
from tests.kafka_broker import broker_of_our_own, fresh_topics, jars

pytestmark = pytest.mark.kafka

REPO = Path(__file__).resolve().parents[3]
PATIENCE_S = 60.0


@pytest.fixture(scope="module")
def private() -> Iterator[KafkaBroker]:
    """A broker of this module, whose topics and life are its own."""
    with broker_of_our_own() as broker:
        yield broker


def write(bootstrap: str, topic: str, value: bytes) -> None:
    with closing(KafkaProducer(bootstrap_servers=bootstrap, acks="all")) as producer:
        producer.send(topic, value).get(PATIENCE_S)


def read(bootstrap: str, topic: str) -> list[bytes]:
    """All that lies in a topic, up to the first silence."""
    consumer = KafkaConsumer(
        topic, bootstrap_servers=bootstrap, auto_offset_reset="earliest", consumer_timeout_ms=1_000, group_id=None
    )
    with closing(consumer):
        return [record.value for record in consumer]


def configs(bootstrap: str, names: list[str]) -> dict[str, dict[str, str]]:
    """What a broker says of its topics, by topic."""
    wanted = [ConfigResource(ConfigResourceType.TOPIC, name) for name in names]
    with closing(KafkaAdminClient(bootstrap_servers=bootstrap)) as admin:
        answer = admin.describe_configs(wanted, config_filter="all")["topic"]
    return {name: {key: found["value"] for key, found in entries.items()} for name, entries in answer.items()}


def partitions(bootstrap: str) -> dict[str, int]:
    """The number of partitions of every topic."""
    with closing(KafkaAdminClient(bootstrap_servers=bootstrap)) as admin:
        return {found["name"]: len(found["partitions"]) for found in admin.describe_topics()}


def test_what_is_written_is_read_back(broker: str, topics: Topics) -> None:
    write(broker, topics.realtime, b"a clip")
    assert read(broker, topics.realtime) == [b"a clip"]


def test_topics_are_as_they_were_asked_for(broker: str, topics: Topics) -> None:
    found = configs(broker, [topic.name for topic in topics.all()])
    for topic in topics.all():
        assert topic.config.items() <= found[topic.name].items()
        assert partitions(broker)[topic.name] == topic.partitions


def test_results_are_compacted(broker: str, topics: Topics) -> None:
    assert configs(broker, [topics.results])[topics.results]["cleanup.policy"] == "compact"


def test_what_was_acknowledged_survives_a_crash_on_the_same_address(private: KafkaBroker) -> None:
    address, topics = private.bootstrap, fresh_topics(private.bootstrap)
    write(address, topics.realtime, b"before")
    private.kill()
    assert not private.running
    private.start()
    write(address, topics.backfill, b"after")
    assert private.bootstrap == address
    assert read(address, topics.realtime) == [b"before"]
    assert read(address, topics.backfill) == [b"after"]


def test_a_broker_that_is_given_gets_the_missing_topics_and_no_neighbour(private: KafkaBroker) -> None:
    command = [sys.executable, "-m", "scripts.kafka"]
    given = os.environ | {"KAFKA_BOOTSTRAP": private.bootstrap}
    said = [subprocess.check_output(command, cwd=REPO, env=given, text=True) for _ in range(2)]
    expected = {topic.name: topic.partitions for topic in Topics().all()}
    assert expected.items() <= partitions(private.bootstrap).items()
    assert "starting none" in said[0]
    assert "All topics are there" in said[1]


def test_a_port_that_was_taken_meanwhile_is_replaced(
    private: KafkaBroker, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    taken = int(private.bootstrap.rpartition(":")[2])
    offers = iter([[taken, *free_ports(1)], free_ports(2)])
    monkeypatch.setattr(scripts.kafka.broker, "free_ports", lambda _: next(offers))
    second = KafkaBroker(jars(), folder=tmp_path)
    second.start()
    second.stop()
    assert second.bootstrap != private.bootstrap
    assert private.running


def test_a_broker_that_cannot_start_shows_its_log(tmp_path: Path) -> None:
    (tmp_path / "data").write_text("not a folder")
    with pytest.raises(BrokerFailed, match=r"(?s)could not format.*data"):
        KafkaBroker(jars(), folder=tmp_path).start()


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_stopped_command_leaves_no_process_and_no_folder(number: signal.Signals, tmp_path: Path) -> None:
    with kafka_command(tmp_path) as process:
        assert processes_below(tmp_path), "Kafka works in its folder"
        os.killpg(process.pid, number)  # the whole group, as a terminal does
        assert process.wait(PATIENCE_S) == 0
    assert not processes_below(tmp_path)
    assert not list(tmp_path.iterdir())


@contextmanager
def kafka_command(folder: Path) -> Iterator["subprocess.Popen[str]"]:
    """``make kafka`` below ``folder``, given when it has told its address."""
    jars()
    environment = {key: value for key, value in os.environ.items() if key != "KAFKA_BOOTSTRAP"}
    with subprocess.Popen(
        [sys.executable, "-m", "scripts.kafka"],
        cwd=REPO,
        env=environment | {"TMPDIR": str(folder)},
        stdout=subprocess.PIPE,
        text=True,
        start_new_session=True,
    ) as process:
        assert process.stdout is not None
        try:
            said = list(iter(process.stdout.readline, "Ctrl-C here stops Kafka.\n"))
            assert any("export KAFKA_BOOTSTRAP=127.0.0.1:" in line for line in said), said
            yield process
        finally:
            process.kill()


def processes_below(folder: Path) -> list[str]:
    """Processes that work in ``folder``, by their command lines."""
    found = []
    for process in Path("/proc").glob("[0-9]*"):
        try:
            if (process / "cwd").readlink().is_relative_to(folder):
                found.append((process / "cmdline").read_text("utf-8", errors="replace"))
        except OSError:
            continue  # it has just ended
    return found
