"""When a request would be done, learnt from those before it. Pure: the clock is injected."""

from llm_engine.admission.tokens import TokenCount, estimated_tokens, prompt_text
from llm_engine.base import LLMRequest
from schemas.deadline import Clock, Deadline
from schemas.errors import Overloaded

KEPT_PER_OBSERVATION = 0.9
"""Of the weight of all earlier ones: the last ten or so count."""

HALF_LIFE_S = 5.0
"""A machine becomes busy, or free again, within seconds."""

FADED = 0.1
"""Observations. What is left of ten after half a minute, and of one after a quarter of one: no evidence any more."""

TRIAL_S = 1.0
"""A forecast that turns everybody away learns nothing. When it has learnt nothing for so long, one request is let in
against it."""


class Rate:
    """Cost of one unit of work: decayed cost divided by decayed units, so that tiny works do not distort it."""

    def __init__(self, *, clock: Clock) -> None:
        self._clock = clock
        self._cost = self._units = self._weight = 0.0
        self._calibrated: float | None = None
        self.learnt_at_s = float("-inf")

    @property
    def value(self) -> float:
        """Cost of a unit. Evidence that has faded gives way to the calibration; what was never measured is 0."""
        if self._weight and self._weight * self._faded() >= FADED:
            return self._cost / self._units
        return self._calibrated or 0.0

    def observe(self, cost: float, *, units: float) -> None:
        """Learn from ``units`` > 0 of work that took ``cost``."""
        kept = KEPT_PER_OBSERVATION * self._faded()
        self._cost = self._cost * kept + cost
        self._units = self._units * kept + units
        self._weight = self._weight * kept + 1
        self.learnt_at_s = self._clock()

    def calibrate(self) -> None:
        """Keep the present value for times without evidence."""
        self._calibrated = self.value

    def forget(self) -> None:
        """Drop all evidence."""
        self._cost = self._units = self._weight = 0.0

    def _faded(self) -> float:
        return float(0.5 ** ((self._clock() - self.learnt_at_s) / HALF_LIFE_S))


class Forecast:
    """What one engine costs. Expected values: a request is turned away when it is likelier late than not."""

    def __init__(self, *, clock: Clock, count_tokens: TokenCount = estimated_tokens) -> None:
        self._clock = clock
        self.count_tokens = count_tokens
        self.prefill_s = Rate(clock=clock)
        """Seconds until the first text, a prompt token."""
        self.decode_s = Rate(clock=clock)
        """Seconds a token of the text."""
        self.fill = Rate(clock=clock)
        """Tokens that texts really have, a token allowed."""
        self.scoring_s = Rate(clock=clock)
        """Seconds a question: only the beginning of its text is read."""
        self.held_s = Rate(clock=clock)
        """Seconds that a seat is held."""
        self._trial_at_s = float("-inf")

    def generation_s(self, request: LLMRequest) -> float:
        """Return the expected seconds of ``request`` once it has a seat; what is not known counts as nothing."""
        prompt_tokens = self.count_tokens(prompt_text(request.prompt))
        output_tokens = request.sampling.max_tokens * self.fill.value
        return prompt_tokens * self.prefill_s.value + output_tokens * self.decode_s.value

    def wait_s(self, *, ahead: int, seats: int) -> float:
        """Return the expected seconds until one of ``seats`` comes free for who has ``ahead`` before them."""
        return (ahead + 1) * self.held_s.value / seats

    def refuse_late(self, expected_s: float, *, deadline: Deadline) -> None:
        """Raise ``Overloaded`` when work of ``expected_s`` would end past ``deadline``, but for one in ``TRIAL_S``.

        ``retry_after_s`` is how late it would be: by then so much of what waits is done. Mutates: counts the trial.
        """
        late_s = expected_s - deadline.remaining()
        if late_s <= 0 or self._tries_again():
            return
        raise Overloaded(f"expected to be done {late_s:.3f} s past the deadline", retry_after_s=late_s)

    def forget(self) -> None:
        """Drop all evidence: start-up does work that no request does."""
        for rate in self._rates:
            rate.forget()

    def calibrate(self) -> None:
        """Keep the costs of a token that are known now, for times without evidence."""
        self.prefill_s.calibrate()
        self.decode_s.calibrate()

    def _tries_again(self) -> bool:
        now_s = self._clock()
        if now_s - max(self._trial_at_s, *(rate.learnt_at_s for rate in self._rates)) < TRIAL_S:
            return False
        self._trial_at_s = now_s
        return True

    @property
    def _rates(self) -> tuple[Rate, ...]:
        return self.prefill_s, self.decode_s, self.fill, self.scoring_s, self.held_s
