"""Equal questions that are asked at the same time share one computation."""

from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass
from typing import Generic, TypeVar

from llm_engine.admission.background import Background
from llm_engine.admission.relay import Listener, Relay
from llm_engine.base import PriorityClass
from schemas.deadline import Deadline

T = TypeVar("T")


@dataclass(slots=True, eq=False)
class Flight(Generic[T]):
    """A computation that runs, as urgent as who began it."""

    relay: Relay[T]
    priority: PriorityClass


@dataclass(slots=True, eq=False)
class Passenger(Generic[T]):
    """One who waits for a flight. ``leads``: the flight was begun for this one."""

    key: str
    flight: Flight[T]
    listener: Listener[T]
    leads: bool


class Flights(Generic[T]):
    """Who computes what at the moment. A flight belongs to nobody: it goes on until its last passenger has left."""

    def __init__(self, *, background: Background) -> None:
        self._background = background
        self._flights: dict[str, Flight[T]] = {}

    def board(
        self, key: str, *, priority: PriorityClass, deadline: Deadline, source: Callable[[], AsyncIterator[T]]
    ) -> Passenger[T]:
        """Join the flight that computes ``key``, or begin it.

        A less urgent one is not joined but replaced: what runs as backfill could be late for a realtime request.
        """
        flight = self._flights.get(key)
        leads = flight is None or flight.relay.done or flight.priority > priority
        if flight is None or leads:
            flight = self._flights[key] = Flight(Relay(source(), background=self._background), priority)
        return Passenger(key, flight, Listener(flight.relay, deadline=deadline), leads)

    def leave(self, passenger: Passenger[T]) -> None:
        """Get off. The last one ends the flight. Safe to call twice."""
        passenger.listener.close()
        flight = passenger.flight
        if flight.relay.listeners:
            return
        flight.relay.stop()
        if self._flights.get(passenger.key) is flight:
            del self._flights[passenger.key]
