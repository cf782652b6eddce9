"""One run of tokens on its way through the engine."""

from collections.abc import Sequence as Items
from dataclasses import dataclass, field
from enum import StrEnum

from llm_engine.base import PriorityClass


class Status(StrEnum):
    """Where a sequence is. A pre-empted one is ``WAITING`` again."""

    WAITING = "waiting"
    RUNNING = "running"
    FINISHED = "finished"


@dataclass(slots=True, eq=False)
class Sequence:
    """Tokens, how many of them are computed, and where their keys and values lie.

    ``token_ids`` only ever grows: prompt first, then output. Positions before ``num_computed`` have keys and values in
    ``block_table``. A prompt of which only the keys and values are wanted has ``wants_logits`` False.
    """

    token_ids: list[int]
    priority: PriorityClass = PriorityClass.REALTIME
    deadline_s: float = float("inf")
    arrival_s: float = 0.0
    wants_logits: bool = True

    number: int = 0
    """Set by the scheduler: no two are equal, so that every order is total."""
    status: Status = Status.WAITING
    num_computed: int = 0
    block_table: list[int] = field(default_factory=list)
    block_hashes: list[bytes] = field(default_factory=list)
    """Of its full blocks, as far as anybody asked."""
    preemptions: int = 0
    prompt_len: int = field(init=False)

    def __post_init__(self) -> None:
        self.prompt_len = len(self.token_ids)

    @property
    def order(self) -> tuple[int, float, float, int]:
        """Smaller goes first: class, then absolute deadline, then arrival."""
        return (self.priority, self.deadline_s, self.arrival_s, self.number)

    @property
    def remaining(self) -> int:
        """Tokens without keys and values. 1 while it decodes."""
        return len(self.token_ids) - self.num_computed

    @property
    def output(self) -> Items[int]:
        """The tokens after the prompt."""
        return self.token_ids[self.prompt_len :]
