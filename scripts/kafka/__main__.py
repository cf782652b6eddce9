"""``make kafka``: a real Kafka with the service's topics, until Ctrl-C."""

import argparse
import os
import signal
import sys
from contextlib import AbstractContextManager
from pathlib import Path

from pipeline.bus.errors import BusError
from pipeline.bus.kafka import KafkaBus
from pipeline.bus.kafka_connection import KafkaConnection
from pipeline.bus.topics import Topics
from scripts.kafka.broker import KafkaBroker, running, temporary_broker
from scripts.kafka.errors import BrokerFailed, KafkaUnavailable
from scripts.kafka.jars import fetched

USE = """
In another terminal:
    export KAFKA_BOOTSTRAP={bootstrap}
    .venv/bin/halfsecond worker
Ctrl-C here stops Kafka.{data}"""


def main() -> None:
    """Run Kafka in the foreground, or create the topics on the one that KAFKA_BOOTSTRAP names."""
    parser = argparse.ArgumentParser(prog="python -m scripts.kafka", description=main.__doc__)
    parser.add_argument("--data", type=Path, metavar="DIR", help="keep the data here (default: gone at the end)")
    folder: Path | None = parser.parse_args().data
    for number in (signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, signal.default_int_handler)
    try:
        if bootstrap := os.environ.get("KAFKA_BOOTSTRAP"):
            _use(bootstrap)
        else:
            _serve(folder)
    except (KafkaUnavailable, BrokerFailed) as error:
        sys.exit(f"kafka: {error}")
    except BusError as error:
        sys.exit(f"kafka: {error.message}")
    except KeyboardInterrupt:
        print("Kafka has stopped.")


def _use(bootstrap: str) -> None:
    print(f"KAFKA_BOOTSTRAP is set: using the Kafka at {bootstrap}, starting none.")
    _create_topics(bootstrap)


def _serve(folder: Path | None) -> None:
    print("Starting Kafka (the first time fetches its jars from Maven Central, 44 MB) ...", flush=True)
    with _broker(fetched(), folder) as broker:
        _create_topics(broker.bootstrap)
        kept = f" Its data stays in {folder}." if folder else ""
        print(USE.format(bootstrap=broker.bootstrap, data=kept), flush=True)
        try:
            broker.wait()
        except KeyboardInterrupt:
            _be_deaf()
            raise
        raise BrokerFailed(f"Kafka ended by itself; its log ends with\n{broker.log_tail()}")


def _broker(libs: Path, folder: Path | None) -> AbstractContextManager[KafkaBroker]:
    return running(KafkaBroker(libs, folder=folder)) if folder else temporary_broker(libs)


def _create_topics(bootstrap: str) -> None:
    created = KafkaBus(KafkaConnection(bootstrap)).create(Topics().all())
    print(f"Topics created: {', '.join(created)}" if created else "All topics are there.")


def _be_deaf() -> None:
    """Let a second Ctrl-C not disturb the tidying up."""
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)


if __name__ == "__main__":
    main()
