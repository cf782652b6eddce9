"""What a stage is.

A stage is a plain object with a synchronous ``run``: it takes one unit of work (one frame, one sound track, one text)
and returns what it found. The caller owns concurrency: it runs the unit on a CPU slot, in its own thread, and decides
what happens when the deadline passes. A stage therefore never waits, never retries, and never touches asyncio.
"""

from dataclasses import dataclass
from typing import Protocol, TypeVar

from schemas.deadline import Deadline

Unit = TypeVar("Unit", contravariant=True)
Found = TypeVar("Found", covariant=True)


class Stage(Protocol[Unit, Found]):
    """One model (or algorithm) that looks at one unit of work."""

    @property
    def name(self) -> str:
        """Key in ``FusedResult.stages``."""
        ...

    @property
    def model(self) -> str:
        """Name and version of the weights."""
        ...

    def run(self, unit: Unit, *, deadline: Deadline) -> Found:
        """Return what is in ``unit``. Must be safe to call from several threads at once. Does not mutate ``unit``.

        Checks ``deadline`` between its own steps (a thread cannot be cancelled) and raises ``DeadlineExceeded``;
        raises ``StageError`` when it cannot answer.
        """
        ...


@dataclass(frozen=True, slots=True)
class Compute:
    """Where and how models run.

    ``providers``: onnxruntime execution providers in order of preference (``CPUExecutionProvider``,
    ``CUDAExecutionProvider``, ``CANNExecutionProvider``). ``threads``: intra-op threads of one model call; with one CPU
    slot a core, 1 keeps models from fighting over the cores.
    """

    providers: tuple[str, ...] = ("CPUExecutionProvider",)
    threads: int = 1
