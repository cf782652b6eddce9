"""Whatever comes, goes and is pre-empted: no block is lost, no order inverted, nobody starved, no text changed."""

import hashlib
from dataclasses import dataclass, field

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from llm_engine.base import PriorityClass
from llm_engine.block_manager import BlockManager
from llm_engine.scheduler import AGED_TOKENS, Scheduled, Scheduler, SchedulerLimits
from llm_engine.sequence import Sequence, Status

STEP_S = 0.05
NUM_BLOCKS = 12
BLOCK_SIZE = 4
LONGEST = 24
AGEING_S = 1.0


def next_token(token_ids: list[int]) -> int:
    """A model: its next token depends on every token before."""
    return hashlib.sha256(repr(token_ids).encode()).digest()[0] % 3


def alone(prompt: list[int], length: int) -> list[int]:
    token_ids = list(prompt)
    while len(token_ids) < length:
        token_ids.append(next_token(token_ids))
    return token_ids


@dataclass
class Clock:
    now_s: float = 0.0

    def __call__(self) -> float:
        return self.now_s


@dataclass
class PagedMemory:
    """Keys and values: each slot holds the tokens up to it, so a wrong block is seen at once."""

    slots: dict[tuple[int, int], tuple[int, ...]] = field(default_factory=dict)

    def compute(self, scheduled: Scheduled) -> None:
        sequence = scheduled.sequence
        for position in range(sequence.num_computed):
            assert self.slots[self._slot(sequence, position)] == tuple(sequence.token_ids[: position + 1])
        for position in range(sequence.num_computed, sequence.num_computed + scheduled.num_tokens):
            self.slots[self._slot(sequence, position)] = tuple(sequence.token_ids[: position + 1])

    def _slot(self, sequence: Sequence, position: int) -> tuple[int, int]:
        return sequence.block_table[position // BLOCK_SIZE], position % BLOCK_SIZE


class SchedulerMachine(RuleBasedStateMachine):
    """Requests of any class and length over few seats and few blocks."""

    @initialize(max_seqs=st.integers(1, 5), step_tokens=st.integers(4, 40))
    def start(self, max_seqs: int, step_tokens: int) -> None:
        self.clock = Clock()
        self.blocks = BlockManager(num_blocks=NUM_BLOCKS, block_size=BLOCK_SIZE, identity="toy")
        limits = SchedulerLimits(max_seqs=max_seqs, step_tokens=step_tokens, ageing_s=AGEING_S)
        self.scheduler = Scheduler(limits, self.blocks, clock=self.clock)
        self.memory = PagedMemory()
        self.lengths: dict[Sequence, int] = {}
        self.prompts: dict[Sequence, list[int]] = {}
        self.finished: list[Sequence] = []

    @rule(
        priority=st.sampled_from(PriorityClass),
        deadline_s=st.sampled_from([1.0, 5.0, float("inf")]),
        prompt=st.lists(st.integers(0, 1), min_size=1, max_size=LONGEST - 4),
        new=st.integers(0, 4),
    )
    def add(self, priority: PriorityClass, deadline_s: float, prompt: list[int], new: int) -> None:
        sequence = Sequence(list(prompt), priority, deadline_s, self.clock())
        self.lengths[sequence], self.prompts[sequence] = len(prompt) + new, list(prompt)
        self.scheduler.add(sequence)

    @precondition(lambda self: self.lengths)
    @rule(data=st.data())
    def abort(self, data: st.DataObject) -> None:
        sequence = data.draw(st.sampled_from(list(self.lengths)))
        self.scheduler.finish(sequence)
        assert sequence.block_table == []
        del self.lengths[sequence]

    @precondition(lambda self: self.lengths)
    @rule(data=st.data(), doomed=st.booleans())
    def step(self, data: st.DataObject, doomed: bool) -> None:
        step = self.scheduler.schedule()
        assert step, "there is work, so something is computed"
        self._check_step(step)
        for scheduled in step:
            self.memory.compute(scheduled)
        if doomed:  # an abort arrives while the step is computed
            victim = data.draw(st.sampled_from([scheduled.sequence for scheduled in step]))
            self.scheduler.finish(victim)
            del self.lengths[victim]
        self.clock.now_s += STEP_S
        complete = [s.sequence for s in step if s.completes]
        self.scheduler.complete(step)
        for sequence in complete:
            self._advance(sequence)

    @rule(seconds=st.sampled_from([0.3, 2.0]))
    def wait(self, seconds: float) -> None:
        self.clock.now_s += seconds

    @rule()
    def trim(self) -> None:
        for block in self.blocks.forget_unreferenced():
            for slot in range(BLOCK_SIZE):
                self.memory.slots.pop((block, slot), None)

    @invariant()
    def no_block_is_lost(self) -> None:
        self.scheduler.check_integrity()
        assert self.scheduler.running <= self.scheduler.limits.max_seqs
        assert len(self.scheduler.unfinished) == self.scheduler.running + self.scheduler.waiting == len(self.lengths)

    def teardown(self) -> None:
        if not hasattr(self, "scheduler"):
            return
        steps = 0
        while self.lengths:
            self.step_plainly()
            steps += 1
            assert steps < 5000
        self.scheduler.check_integrity()
        assert self.blocks.available == NUM_BLOCKS

    def step_plainly(self) -> None:
        step = self.scheduler.schedule()
        assert step
        self._check_step(step)
        for scheduled in step:
            self.memory.compute(scheduled)
        self.clock.now_s += STEP_S
        complete = [s.sequence for s in step if s.completes]
        self.scheduler.complete(step)
        for sequence in complete:
            self._advance(sequence)

    def _advance(self, sequence: Sequence) -> None:
        if sequence.status is Status.FINISHED:
            return
        if len(sequence.token_ids) < self.lengths[sequence]:
            sequence.token_ids.append(next_token(sequence.token_ids))
            return
        assert sequence.token_ids == alone(self.prompts[sequence], self.lengths[sequence])
        self.scheduler.finish(sequence)
        del self.lengths[sequence]

    def _check_step(self, step: tuple[Scheduled, ...]) -> None:
        promoted = self.scheduler._promoted
        aged = sum(scheduled.num_tokens for scheduled in step if scheduled.sequence is promoted)
        assert sum(scheduled.num_tokens for scheduled in step) - aged <= self.scheduler.limits.step_tokens
        assert aged <= self.scheduler.limits.step_tokens
        served = [scheduled.sequence for scheduled in step if scheduled.sequence is not promoted]
        passed_over = [s for s in self.lengths if s not in served and s is not promoted]
        if served and passed_over:
            assert max(s.order for s in served) < min(s.order for s in passed_over), "order is never inverted"
        for scheduled in step:
            left = scheduled.sequence.remaining - scheduled.num_tokens
            assert left != 1, "no chunk of one token is left of a prompt"
            if scheduled.sequence is promoted and len(self.lengths) > 1:
                assert scheduled.num_tokens <= AGED_TOKENS


TestScheduler = SchedulerMachine.TestCase
TestScheduler.settings = settings(max_examples=120, stateful_step_count=40, deadline=None)


@dataclass
class House:
    """A scheduler under endless realtime load."""

    clock: Clock = field(default_factory=Clock)

    def __post_init__(self) -> None:
        blocks = BlockManager(num_blocks=NUM_BLOCKS, block_size=BLOCK_SIZE, identity="toy")
        limits = SchedulerLimits(max_seqs=2, step_tokens=20, ageing_s=AGEING_S)
        self.scheduler = Scheduler(limits, blocks, clock=self.clock)

    def add(self, priority: PriorityClass, tokens: int) -> Sequence:
        sequence = Sequence(list(range(tokens)), priority, arrival_s=self.clock())
        self.scheduler.add(sequence)
        return sequence

    def step(self) -> None:
        while self.scheduler.waiting < 4:
            self.add(PriorityClass.REALTIME, 15)
        step = self.scheduler.schedule()
        self.clock.now_s += STEP_S
        complete = [s.sequence for s in step if s.completes]
        self.scheduler.complete(step)
        for sequence in complete:
            self.scheduler.finish(sequence)


def test_backfill_is_served_within_the_ageing_bound_under_endless_realtime_load() -> None:
    house = House()
    low = [house.add(PriorityClass.BACKFILL, 20) for _ in range(5)]
    own_steps = -(-20 // AGED_TOKENS) + 1
    bound_s = AGEING_S + len(low) * own_steps * STEP_S + STEP_S
    while house.clock() < bound_s:
        house.step()
    assert all(sequence.status is Status.FINISHED for sequence in low)


def test_without_ageing_backfill_waits_as_long_as_realtime_comes() -> None:
    """Shows that the test above would notice."""
    house = House()
    house.scheduler.limits = SchedulerLimits(max_seqs=2, step_tokens=20, ageing_s=1e9)
    low = house.add(PriorityClass.BACKFILL, 20)
    for _ in range(200):
        house.step()
    assert low.status is Status.WAITING
