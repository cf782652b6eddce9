"""The breaker under any sequence of attempts."""

from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from llm_engine.admission.breaker import Breaker, BreakerSettings, BreakerState, Epoch

SETTINGS = BreakerSettings(max_failures=3, window_s=10, cooldown_s=5, jitter=0.5)


class BreakerMachine(RuleBasedStateMachine):
    def __init__(self) -> None:
        super().__init__()
        self.chance = 0.0
        self.breaker = Breaker(SETTINGS, chance=lambda: self.chance)
        self.now_s = 0.0
        self.attempts: list[Epoch] = []
        self.trial: tuple[Epoch, float] | None = None
        self.opened_at_s = 0.0
        self.before = BreakerState.CLOSED

    @property
    def state(self) -> BreakerState:
        return self.breaker.state(self.now_s)

    @rule(seconds=st.floats(0.5, 6), chance=st.floats(0, 1))
    def pass_time(self, seconds: float, chance: float) -> None:
        self.now_s += seconds
        self.chance = chance

    @precondition(lambda self: self.breaker.can_begin(self.now_s))
    @rule()
    def begin(self) -> None:
        half_open = self.state is BreakerState.HALF_OPEN
        if half_open and self.trial:
            assert self.now_s - self.trial[1] >= SETTINGS.cooldown_s, "one at a time, unless it is lost"
        epoch = self.breaker.begin(self.now_s)
        self.attempts.append(epoch)
        if half_open:
            self.trial = (epoch, self.now_s)

    @precondition(lambda self: self.attempts)
    @rule(data=st.data(), how=st.sampled_from(["succeeded", "failed", "fatal", "abandoned"]))
    def end(self, data, how: str) -> None:
        epoch = self.attempts.pop(data.draw(st.integers(0, len(self.attempts) - 1)))
        before = self.state
        if how == "succeeded":
            self.breaker.succeeded(epoch)
        elif how == "abandoned":
            self.breaker.abandoned(epoch)
        else:
            self.breaker.failed(epoch, self.now_s, fatal=how == "fatal")
        is_trial = self.trial is not None and self.trial[0] == epoch
        if before is not BreakerState.CLOSED and self.state is not before:
            assert is_trial, "only its own attempt changes an open breaker"
            assert (self.state is BreakerState.CLOSED) == (how == "succeeded")
        if before is not BreakerState.OPEN and self.state is BreakerState.OPEN:
            assert how in ("failed", "fatal")
            self.opened_at_s = self.now_s
        if is_trial:
            self.trial = None

    @invariant()
    def an_open_one_lets_nobody_through(self) -> None:
        if self.state is BreakerState.OPEN:
            assert not self.breaker.can_begin(self.now_s)

    @invariant()
    def it_is_open_for_the_cool_down_and_no_longer_than_its_jitter_allows(self) -> None:
        since_s = self.now_s - self.opened_at_s
        if self.state is BreakerState.OPEN:
            assert since_s < SETTINGS.cooldown_s * (1 + SETTINGS.jitter)
        if self.state is BreakerState.HALF_OPEN:
            assert since_s >= SETTINGS.cooldown_s

    @invariant()
    def it_never_stays_shut(self) -> None:
        later_s = self.now_s + SETTINGS.cooldown_s * (1 + SETTINGS.jitter)
        assert self.breaker.can_begin(later_s)


TestBreaker = BreakerMachine.TestCase
