"""The deadline is one absolute instant."""

from schemas.deadline import Deadline


class ManualClock:
    now_s = 50.0

    def __call__(self) -> float:
        return self.now_s


def test_remaining_counts_down_and_never_below_zero():
    clock = ManualClock()
    deadline = Deadline.after(0.5, clock=clock)
    assert deadline.remaining() == 0.5
    clock.now_s = 60
    assert deadline.remaining() == 0
    assert deadline.expired


def test_reserving_leaves_time_for_what_comes_after():
    clock = ManualClock()
    deadline = Deadline.after(0.5, clock=clock)
    assert deadline.reserve(0.25).remaining() == 0.25
    assert deadline.remaining() == 0.5


def test_never_does_not_expire():
    deadline = Deadline.never().reserve(1000)
    assert not deadline.expired
    assert deadline.remaining() == float("inf")
