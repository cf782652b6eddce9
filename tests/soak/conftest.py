"""The fixtures of the service's tests: a broker of our own, topics, a checker, workers."""

from tests.integration.conftest import bootstrap, broker, own_broker, topics
from tests.integration.service.conftest import checker, start_worker

__all__ = ["bootstrap", "broker", "checker", "own_broker", "start_worker", "topics"]
