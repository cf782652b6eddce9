"""One Kafka broker that is its own controller (KRaft), as a child of this process."""

import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import IO

from scripts.kafka.errors import BrokerFailed, PortTaken
from scripts.kafka.guardian import GuardedProcess
from scripts.kafka.java import java
from scripts.kafka.ports import free_ports

CLUSTER_ID = "aGFsZnNlY29uZC1sb2NhbA"
"""What the tool calls a random id: 16 bytes in URL-safe base64. Nothing else ever joins, so it need not be random."""

JAVA_OPTIONS = ["-Xmx512m", "-XX:TieredStopAtLevel=1", "-Dorg.slf4j.simpleLogger.showDateTime=true"]
"""One compiler instead of two: half the CPU at start (1.8 s), and still 40 % less after 18 s at 1,000 records/s."""
KAFKA = ["kafka.Kafka", "server.properties"]
FORMAT = ["kafka.tools.StorageTool", "format", "-t", CLUSTER_ID, "-c", "server.properties"]

STARTED = b"Kafka Server started"
"""Kafka's word that clients are served. Its port accepts connections earlier."""
PORT_TAKEN = b"Address already in use"

START_S = 90.0
"""It takes 3 s on an idle machine and took 20 s on one with three times its cores' work."""
STOP_S = 20.0
POLL_S = 0.05
ATTEMPTS = 5
"""Somebody else may take a port between our look at it and Kafka's."""

# After a crash the controller takes the broker back only when its old session has timed out: 4 s instead of Kafka's 9.
PROPERTIES = """\
process.roles=broker,controller
node.id=1
controller.quorum.voters=1@127.0.0.1:{controller_port}
listeners=PLAINTEXT://127.0.0.1:{port},CONTROLLER://127.0.0.1:{controller_port}
advertised.listeners=PLAINTEXT://127.0.0.1:{port}
controller.listener.names=CONTROLLER
inter.broker.listener.name=PLAINTEXT
listener.security.protocol.map=CONTROLLER:PLAINTEXT,PLAINTEXT:PLAINTEXT
log.dirs=data
auto.create.topics.enable=false
broker.session.timeout.ms=4000
broker.heartbeat.interval.ms=500
group.initial.rebalance.delay.ms=0
offsets.topic.replication.factor=1
offsets.topic.num.partitions=4
transaction.state.log.replication.factor=1
transaction.state.log.min.isr=1
transaction.state.log.num.partitions=4
"""


class KafkaBroker:
    """Runs in ``folder``: settings, data and log lie there and stay there.

    ``start`` after ``stop`` or ``kill`` brings it back with the same data on the same ports. One thread at a time.
    """

    def __init__(self, libs: Path, *, folder: Path) -> None:
        """Take the jars and a folder of its own. Raises ``KafkaUnavailable`` when there is no Java."""
        self._java = [java(), *JAVA_OPTIONS, "-cp", f"{libs.resolve()}/*"]
        self._folder = folder.resolve()
        self._ports: list[int] = []
        self._process: GuardedProcess | None = None

    @property
    def bootstrap(self) -> str:
        """``host:port`` for clients. Known once it has started; a restart does not change it."""
        return f"127.0.0.1:{self._ports[0]}"

    @property
    def running(self) -> bool:
        """Whether the process is there."""
        return self._process is not None and self._process.running

    @property
    def log_file(self) -> Path:
        """What Kafka has said, over all its lives."""
        return self._folder / "kafka.log"

    def start(self) -> None:
        """Return when clients are served; do nothing when it runs. Raises ``BrokerFailed``."""
        if self.running:
            return
        self._folder.mkdir(parents=True, exist_ok=True)
        if self._ports:
            self._launch()
        else:
            self._launch_on_free_ports()

    def stop(self) -> None:
        """Let it end in order, as SIGTERM does. Safe to call twice."""
        self._end(patience_s=STOP_S)

    def kill(self) -> None:
        """End it as a crash does (SIGKILL)."""
        self._end(patience_s=0)

    def wait(self) -> None:
        """Wait until it ends by itself."""
        if self._process is not None:
            self._process.wait()

    def log_tail(self, lines: int = 30) -> str:
        """Return the end of the log."""
        return "\n".join(self.log_file.read_text("utf-8", errors="replace").splitlines()[-lines:])

    def _launch_on_free_ports(self) -> None:
        for attempt in range(1, ATTEMPTS + 1):
            self._ports = free_ports(2)
            try:
                self._launch()
            except PortTaken:
                if attempt == ATTEMPTS:
                    raise
            else:
                return

    def _launch(self) -> None:
        """Start Kafka on the chosen ports and wait for it."""
        port, controller_port = self._ports
        settings = PROPERTIES.format(port=port, controller_port=controller_port)
        (self._folder / "server.properties").write_text(settings, "ascii")
        with self.log_file.open("ab") as log:
            if not (self._folder / "data" / "meta.properties").exists():
                self._format(log)
            log_start = log.tell()
            self._process = GuardedProcess([*self._java, *KAFKA], cwd=self._folder, output=log)
        try:
            self._wait_until_it_serves(log_start)
        except BaseException:
            self.kill()
            raise

    def _format(self, log: IO[bytes]) -> None:
        """Make the data folder. Not guarded: it ends by itself within a second."""
        command = [*self._java, *FORMAT]
        if subprocess.run(command, cwd=self._folder, stdout=log, stderr=log, check=False).returncode:
            raise BrokerFailed(f"Kafka could not format {self._folder / 'data'}:\n{self.log_tail()}")

    def _wait_until_it_serves(self, log_start: int) -> None:
        give_up_s = time.monotonic() + START_S
        while True:
            said = self._said_since(log_start)
            if STARTED in said:
                return
            if PORT_TAKEN in said:
                raise PortTaken(f"Somebody else listens on a port of {self._ports}")
            if not self.running or time.monotonic() > give_up_s:
                raise BrokerFailed(f"Kafka did not start; {self.log_file} ends with\n{self.log_tail()}")
            time.sleep(POLL_S)

    def _said_since(self, log_start: int) -> bytes:
        with self.log_file.open("rb") as log:
            log.seek(log_start)
            return log.read()

    def _end(self, *, patience_s: float) -> None:
        if self._process is not None:
            self._process.end(patience_s=patience_s)
            self._process = None


@contextmanager
def temporary_broker(libs: Path) -> Iterator[KafkaBroker]:
    """Yield a running broker that leaves nothing behind."""
    with TemporaryDirectory(prefix="halfsecond-kafka-") as folder:
        broker = KafkaBroker(libs, folder=Path(folder))
        with running(broker):
            yield broker


@contextmanager
def running(broker: KafkaBroker) -> Iterator[KafkaBroker]:
    """Start ``broker`` and stop it at the end."""
    try:
        broker.start()
        yield broker
    finally:
        broker.stop()
