"""What goes wrong during a soak: workers are killed and restarted, the broker goes away and comes back."""

import random
import time
from collections import Counter

from scripts.kafka.broker import KafkaBroker
from tests.service_worker import StartWorker, WorkerProcess

DRAINED_WITHIN_S = 20.0


class Faults:
    """A fleet and what happens to it. The eldest worker lives through all of it: its memory is looked at."""

    def __init__(self, broker: KafkaBroker, start_worker: StartWorker, *, workers: int, seed: str) -> None:
        self._broker = broker
        self._start = start_worker
        self._chance = random.Random(seed)
        self.eldest = start_worker()
        self._others = [start_worker() for _ in range(workers - 1)]
        self.counts: Counter[str] = Counter()

    def strike(self) -> None:
        """Do one of the things that happen, and set it right again."""
        faults = {self._kill: 4, self._restart: 3, self._broker_stops: 1, self._broker_is_killed: 1}
        (fault,) = self._chance.choices(list(faults), weights=list(faults.values()))
        self.counts[fault.__name__.strip("_").replace("_", " ")] += 1
        fault()

    def _kill(self) -> None:
        self._victim().kill()
        time.sleep(self._chance.uniform(0.0, 8.0))
        self._others.append(self._start())

    def _restart(self) -> None:
        victim = self._victim()
        victim.terminate()
        assert victim.wait(within_s=DRAINED_WITHIN_S) == 0, victim.words
        self._others.append(self._start())

    def _broker_stops(self) -> None:
        self._broker.stop()
        time.sleep(self._chance.uniform(0.0, 4.0))
        self._broker.start()

    def _broker_is_killed(self) -> None:
        self._broker.kill()
        self._broker.start()

    def _victim(self) -> WorkerProcess:
        return self._others.pop(self._chance.randrange(len(self._others)))
