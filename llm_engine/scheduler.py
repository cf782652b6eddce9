"""What the next step computes. Pure and synchronous, with an injected clock.

Sequences are served in strict order (class, absolute deadline, arrival), each with as many tokens as the step's budget
still allows: a long prompt in chunks, a decoding sequence with one. A better sequence takes seat and blocks from worse
ones: those wait again, and what they had computed is computed once more (mostly found in the prefix cache).

Strict order would starve the lowest class for as long as better work comes in. Therefore the sequence that has gone
without a token for longest, once that is ``ageing_s``, is *promoted*: it goes first, with at most ``AGED_TOKENS`` on
top of each step's budget, and is not pre-empted any more. There is one promoted sequence at a time, so that better work
loses one seat and waits a little longer for each step, and every sequence is served within ``ageing_s`` and the time
that those promoted before it take.
"""

import itertools
from bisect import bisect_left, insort
from collections import OrderedDict
from collections.abc import Iterator
from dataclasses import dataclass

from llm_engine.block_manager import BlockManager
from llm_engine.sequence import Sequence, Status
from schemas.deadline import Clock

AGED_TOKENS = 8
"""An eighth of a usual step: what endless lower work may add to each of them."""

MIN_STEP_TOKENS = 4
"""Any prompt can be cut into chunks of two or three."""


@dataclass(frozen=True, slots=True)
class SchedulerLimits:
    """``max_seqs``: seats. ``step_tokens``: what one step computes at most, so what an urgent request waits for."""

    max_seqs: int = 16
    step_tokens: int = 64
    ageing_s: float = 2.0

    def __post_init__(self) -> None:
        if self.max_seqs < 1 or self.step_tokens < MIN_STEP_TOKENS or self.ageing_s <= 0:
            msg = f"a step needs a seat, {MIN_STEP_TOKENS} tokens and a positive ageing time: {self}"
            raise ValueError(msg)


@dataclass(frozen=True, slots=True)
class Scheduled:
    """A sequence and how many of its tokens the step computes."""

    sequence: Sequence
    num_tokens: int

    @property
    def completes(self) -> bool:
        """Whether all tokens are computed after the step, so that the next one can be chosen."""
        return self.num_tokens == self.sequence.remaining


class Scheduler:
    """Chooses the sequences of each step and keeps their blocks."""

    def __init__(self, limits: SchedulerLimits, blocks: BlockManager, *, clock: Clock) -> None:
        self.limits = limits
        self.blocks = blocks
        self._clock = clock
        self._numbers = itertools.count()
        self._waiting: list[Sequence] = []
        self._running: list[Sequence] = []
        self._last_served_s: OrderedDict[Sequence, float] = OrderedDict()
        """Every unfinished sequence, the one that went without a token for longest first."""
        self._promoted: Sequence | None = None
        self.preempted = 0
        self.prefix_hit_tokens = 0

    @property
    def waiting(self) -> int:
        """Sequences without a seat."""
        return len(self._waiting)

    @property
    def running(self) -> int:
        """Sequences with a seat."""
        return len(self._running)

    @property
    def unfinished(self) -> tuple[Sequence, ...]:
        """All that wait or run."""
        return tuple(self._last_served_s)

    def add(self, sequence: Sequence) -> None:
        """Queue ``sequence``. Its blocks must fit into an empty pool."""
        sequence.number = next(self._numbers)
        self._last_served_s[sequence] = self._clock()
        insort(self._waiting, sequence, key=_order)

    def finish(self, sequence: Sequence) -> None:
        """Take ``sequence`` out and free its blocks, at any time. Of a finished one: nothing happens."""
        if sequence.status is Status.FINISHED:
            return
        if sequence.status is Status.RUNNING:
            self._running.remove(sequence)
        else:
            self._leave_queue(sequence)
        self.blocks.release(sequence)
        sequence.status = Status.FINISHED
        del self._last_served_s[sequence]
        if self._promoted is sequence:
            self._promoted = None

    def schedule(self) -> tuple[Scheduled, ...]:
        """Return what the next step computes, its blocks allocated; empty when there is nothing to do.

        Seats and blocks change hands here. ``complete`` must follow before the next call.
        """
        self._promote()
        budget = self.limits.step_tokens
        step: list[Scheduled] = []
        for sequence in self._candidates():
            if budget < min(sequence.remaining, 2) or not self._can_seat(sequence):
                break  # whoever comes after it is worse, and does not overtake it
            num_tokens = self._chunk(sequence, budget)
            if not num_tokens or not self._make_room(sequence, num_tokens):
                break
            step.append(Scheduled(sequence, num_tokens))
            if sequence is not self._promoted:  # it comes on top: better work keeps its whole budget
                budget -= num_tokens
        return tuple(step)

    def complete(self, step: tuple[Scheduled, ...]) -> None:
        """Book what the step has computed. Sequences finished meanwhile are left alone."""
        now_s = self._clock()
        for scheduled in step:
            sequence = scheduled.sequence
            if sequence.status is Status.FINISHED:
                continue
            sequence.num_computed += scheduled.num_tokens
            self.blocks.seal(sequence)
            self._last_served_s[sequence] = now_s
            self._last_served_s.move_to_end(sequence)

    def check_integrity(self, *, held: tuple[Sequence, ...] = ()) -> None:
        """Raise ``IntegrityError`` when blocks are lost. ``held``: sequences outside the scheduler that keep blocks."""
        self.blocks.check_integrity((*self._last_served_s, *held))

    def _promote(self) -> None:
        if self._promoted is not None or not self._last_served_s:
            return
        sequence, served_s = next(iter(self._last_served_s.items()))
        if self._clock() - served_s >= self.limits.ageing_s:
            self._promoted = sequence

    def _candidates(self) -> Iterator[Sequence]:
        """Return who may be served in this step, in order. No more of the waiting than there are seats to take."""
        if self._promoted is not None:
            yield self._promoted
        for sequence in sorted((*self._running, *self._waiting[: self.limits.max_seqs]), key=_order):
            if sequence is not self._promoted:
                yield sequence

    def _chunk(self, sequence: Sequence, budget: int) -> int:
        """Return how many tokens of ``sequence`` to compute: 0 when the budget is too small.

        A prompt is never cut so that a chunk of one token is left: those round differently (see ``Executor``).
        """
        if sequence is self._promoted:
            alone = len(self._last_served_s) == 1
            budget = self.limits.step_tokens if alone else min(AGED_TOKENS, self.limits.step_tokens)
        num_tokens = min(sequence.remaining, budget)
        left = sequence.remaining - num_tokens
        if left == 1:
            num_tokens -= 1
        return num_tokens if left == 0 or num_tokens > 1 else 0

    def _can_seat(self, sequence: Sequence) -> bool:
        """Find a seat for ``sequence``, if need be that of a worse one."""
        if sequence.status is Status.RUNNING:
            return True
        if len(self._running) >= self.limits.max_seqs and not self._preempt_worse_than(sequence):
            return False
        self._leave_queue(sequence)
        self._running.append(sequence)
        sequence.status = Status.RUNNING
        self.prefix_hit_tokens += self.blocks.adopt_prefix(sequence)
        return True

    def _make_room(self, sequence: Sequence, num_tokens: int) -> bool:
        """Allocate the blocks of the chunk, if need be those of worse ones; else the seat is given up, too."""
        upto = sequence.num_computed + num_tokens
        while not self.blocks.can_extend(sequence, upto):
            if not self._preempt_worse_than(sequence):
                self._preempt(sequence)
                return False
        self.blocks.extend(sequence, upto)
        return True

    def _preempt_worse_than(self, sequence: Sequence) -> bool:
        """Send the worst running sequence back to wait, if it is worse than ``sequence``."""
        others = (other for other in self._running if other is not self._promoted and other is not sequence)
        victim = max(others, key=_order, default=None)
        if victim is None or (sequence is not self._promoted and _order(victim) < _order(sequence)):
            return False
        self._preempt(victim)
        return True

    def _leave_queue(self, sequence: Sequence) -> None:
        del self._waiting[bisect_left(self._waiting, sequence.order, key=_order)]

    def _preempt(self, sequence: Sequence) -> None:
        self.blocks.release(sequence)
        self._running.remove(sequence)
        sequence.status = Status.WAITING
        sequence.preemptions += 1
        self.preempted += 1
        insort(self._waiting, sequence, key=_order)


def _order(sequence: Sequence) -> tuple[int, float, float, int]:
    return sequence.order
