"""A breaker opens on failures that come together, and closes on proof."""

import pytest

from llm_engine.admission.breaker import Breaker, BreakerSettings, BreakerState

SETTINGS = BreakerSettings(max_failures=3, window_s=10, cooldown_s=5, jitter=0.2)


def breaker(chance: float = 0.0) -> Breaker:
    return Breaker(SETTINGS, chance=lambda: chance)


def opened(chance: float = 0.0) -> Breaker:
    subject = breaker(chance)
    subject.failed(subject.begin(0), 0, fatal=True)
    return subject


def fail(subject: Breaker, now_s: float) -> None:
    subject.failed(subject.begin(now_s), now_s)


def test_single_failures_do_not_open_it():
    subject = breaker()
    for now_s in (0, 8, 16, 24):
        fail(subject, now_s)
    assert subject.state(24) is BreakerState.CLOSED


def test_three_within_the_window_do():
    subject = breaker()
    for now_s in (0, 4, 8):
        fail(subject, now_s)
    assert subject.state(8) is BreakerState.OPEN
    assert not subject.can_begin(8)
    with pytest.raises(ValueError, match="open"):
        subject.begin(8)


def test_a_fatal_failure_opens_it_at_once():
    assert opened().state(0) is BreakerState.OPEN


def test_it_is_half_open_after_the_cool_down_and_its_jitter():
    assert opened().state(5) is BreakerState.HALF_OPEN
    assert opened(chance=1).state(5.9) is BreakerState.OPEN
    assert opened(chance=1).state(6) is BreakerState.HALF_OPEN


def test_half_open_means_one_at_a_time():
    subject = opened()
    epoch = subject.begin(5)
    assert not subject.can_begin(5)
    subject.abandoned(epoch)
    assert subject.can_begin(5)


def test_a_good_attempt_closes_it_and_a_bad_one_opens_it_again():
    subject = opened()
    subject.failed(subject.begin(5), 7)
    assert subject.state(11) is BreakerState.OPEN
    subject.succeeded(subject.begin(12))
    assert subject.state(12) is BreakerState.CLOSED
    fail(subject, 13)
    assert subject.state(13) is BreakerState.CLOSED, "old failures are forgotten"


def test_what_began_before_it_opened_says_nothing_afterwards():
    subject = breaker()
    old = subject.begin(0)
    subject.failed(subject.begin(0), 0, fatal=True)
    subject.begin(5)
    subject.succeeded(old)
    assert subject.state(5) is BreakerState.HALF_OPEN
    subject.failed(old, 5)
    subject.abandoned(old)
    assert not subject.can_begin(5)


def test_an_attempt_that_never_ends_does_not_block_the_next():
    subject = opened()
    lost = subject.begin(5)
    assert not subject.can_begin(9)
    subject.begin(10)
    subject.succeeded(lost)
    assert subject.state(10) is BreakerState.HALF_OPEN
