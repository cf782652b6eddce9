"""How old a record is, when the clock that stamped it is not ours. Pure.

Our own topics are stamped by the broker, and broker and workers keep the same time in any sane installation. Where they
do not, a clock that runs ahead makes records come from the future, and one that runs behind makes fresh records look
late. The first is plain to see. The second looks like waiting, except where we know better: a partition that was
empty a moment ago cannot hold an old record.
"""

from dataclasses import dataclass

TOLERANCE_S = 0.05
"""Clocks kept by NTP differ by less; it is not worth a count."""

NO_TIMESTAMP_MS = -1


@dataclass(frozen=True, slots=True)
class Arrival:
    """How long ago a record was sent, never negative. ``skew_s``: how far its clock was ahead; negative: behind."""

    age_s: float
    skew_s: float = 0.0


@dataclass(slots=True)
class ClockSkew:
    """Corrects ages and counts the corrections. Mutated by ``arrival``; one thread at a time."""

    ahead: int = 0
    behind: int = 0
    largest_s: float = 0.0

    def arrival(self, timestamp_ms: int, *, now_s: float, empty_for_s: float | None = None) -> Arrival:
        """Return a record's age.

        ``now_s``: our wall clock, seconds since 1970. ``empty_for_s``: how long ago its partition was known to hold
        nothing unread, which bounds the age; None when that is not known. A record without a timestamp is new.
        """
        if timestamp_ms == NO_TIMESTAMP_MS:
            return Arrival(0.0)
        age_s = now_s - timestamp_ms / 1000
        oldest_s = float("inf") if empty_for_s is None else empty_for_s
        believed_s = min(max(age_s, 0.0), oldest_s)
        skew_s = believed_s - age_s
        if abs(skew_s) <= TOLERANCE_S:
            return Arrival(believed_s)
        self.ahead += skew_s > 0
        self.behind += skew_s < 0
        self.largest_s = max(self.largest_s, abs(skew_s))
        return Arrival(believed_s, skew_s)
