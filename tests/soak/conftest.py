"""The fixtures of the service's tests: a broker of our own, topics, a checker, workers."""

from tests.integration.service.conftest import bootstrap, broker, checker, own_broker, start_worker, topics

__all__ = ["bootstrap", "broker", "checker", "own_broker", "start_worker", "topics"]
