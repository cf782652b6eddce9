"""``make demo``: a real Kafka, a worker, and the sample clips coming in again and again; results live until Ctrl-C."""

import argparse
import itertools
import os
import signal
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path

from pipeline.bus.errors import BusError
from pipeline.bus.kafka import KafkaBus
from pipeline.bus.kafka_connection import KafkaConnection
from pipeline.bus.topics import Topics
from scripts.kafka.broker import temporary_broker
from scripts.kafka.errors import BrokerFailed, KafkaUnavailable
from scripts.kafka.jars import fetched
from scripts.kafka.ports import free_ports

REPO = Path(__file__).resolve().parents[1]
MEDIA = REPO / "tests" / "media"
CLIPS = ("composite/talk_en_jfk.mp4", "composite/lecture_zh.mp4", "real/store_aisle.mp4")
READY_S = 120.0
"""Loading the models takes 5 s on quiet cores."""


def main() -> None:
    """Run until Ctrl-C, or for --clips clips."""
    parser = argparse.ArgumentParser(prog="python -m scripts.demo", description=main.__doc__)
    parser.add_argument("--clips", type=int, help="stop after so many (default: at Ctrl-C)")
    parser.add_argument("--every", type=float, default=2.0, metavar="S", help="seconds between clips (default: 2)")
    options = parser.parse_args()
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    try:
        _demonstrate(options.clips, every_s=options.every)
    except (KafkaUnavailable, BrokerFailed, BusError) as error:
        sys.exit(f"demo: {error}")
    except KeyboardInterrupt:
        print("The demo has ended.")


def _demonstrate(count: int | None, *, every_s: float) -> None:
    with ExitStack() as stack:
        print("Starting Kafka ...", flush=True)
        broker = stack.enter_context(temporary_broker(fetched()))
        KafkaBus(KafkaConnection(broker.bootstrap)).create(Topics().all())
        port = free_ports(1)[0]
        environment = os.environ | {
            "HALFSECOND_KAFKA_BOOTSTRAP": broker.bootstrap,
            "HALFSECOND_FETCH_ROOTS": f'["{MEDIA}"]',
            "HALFSECOND_HTTP_PORT": str(port),
        }
        print("Starting a worker (it loads its models first) ...", flush=True)
        worker = stack.enter_context(_running("worker", environment=environment))
        _wait_until_ready(worker, port=port)
        print(
            f"Kafka: {broker.bootstrap}   metrics: http://127.0.0.1:{port}/metrics   Ctrl-C ends it all\n", flush=True
        )
        stack.enter_context(_running("results", "--follow", environment=environment))
        _feed(worker, count, every_s=every_s, environment=environment)


def _feed(worker: subprocess.Popen[bytes], count: int | None, *, every_s: float, environment: dict[str, str]) -> None:
    numbers = itertools.count() if count is None else range(count)
    for number, clip in zip(numbers, itertools.cycle(CLIPS), strict=False):
        if worker.poll() is not None:
            sys.exit(f"demo: the worker ended with status {worker.returncode}")
        _halfsecond("submit", str(MEDIA / clip), "--video-id", f"demo-{number}", environment=environment)
        time.sleep(every_s)
    time.sleep(2.0)  # for the last answer to be shown


def _halfsecond(*arguments: str, environment: dict[str, str]) -> None:
    subprocess.run(_command(arguments), env=environment, check=True, stdout=subprocess.DEVNULL)


@contextmanager
def _running(*arguments: str, environment: dict[str, str]) -> Iterator[subprocess.Popen[bytes]]:
    process = subprocess.Popen(_command(arguments), env=environment)
    try:
        yield process
    finally:
        with suppress(ProcessLookupError):
            process.terminate()
        try:
            process.wait(timeout=15)
        except subprocess.TimeoutExpired:
            process.kill()


def _command(arguments: Sequence[str]) -> list[str]:
    return [sys.executable, "-m", "pipeline", *arguments]


def _wait_until_ready(worker: subprocess.Popen[bytes], *, port: int) -> None:
    ends_s = time.monotonic() + READY_S
    while time.monotonic() < ends_s and worker.poll() is None:
        with suppress(urllib.error.URLError, ConnectionError):
            urllib.request.urlopen(f"http://127.0.0.1:{port}/readyz", timeout=2)
            return
        time.sleep(0.2)
    sys.exit("demo: the worker did not become ready; its log is above")


if __name__ == "__main__":
    main()
