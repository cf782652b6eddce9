"""Measures what an engine costs, beside the engine: a slow reader of the stream does not count."""

from collections.abc import AsyncIterator, Sequence

from llm_engine.admission.forecast import Forecast
from llm_engine.admission.front import EngineFront
from llm_engine.admission.streams import closing
from llm_engine.admission.tokens import prompt_text
from llm_engine.base import LabelSet, LLMEngine, LLMOutput, LLMRequest, PriorityClass, Prompt
from schemas.deadline import Clock, Deadline


class Meter(EngineFront):
    """Tells ``forecast`` what every request took."""

    def __init__(self, engine: LLMEngine, *, forecast: Forecast, clock: Clock) -> None:
        super().__init__(engine)
        self._forecast = forecast
        self._clock = clock

    async def generate(self, request: LLMRequest) -> AsyncIterator[LLMOutput]:
        """Stream the growing text of ``request``."""
        began_s = self._clock()
        first_s = last_s = None
        last = None
        try:
            async with closing(self._engine.generate(request)) as stream:
                async for output in stream:
                    last, last_s = output, self._clock()
                    first_s = last_s if first_s is None else first_s
                    yield output
        finally:
            if last is not None and first_s is not None and last_s is not None:
                self._learn_prefill(request, first_s - began_s)
                self._learn_text(request, last, last_s - first_s)
            elif request.deadline.expired:
                self._learn_prefill(request, self._clock() - began_s)  # so long at least

    async def score(
        self,
        prompt: Prompt,
        labels: LabelSet,
        *,
        deadline: Deadline,
        priority: PriorityClass = PriorityClass.REALTIME,
    ) -> Sequence[float]:
        """Return log-probabilities over ``labels.labels``."""
        began_s = self._clock()
        answered = False
        try:
            scores = await self._engine.score(prompt, labels, deadline=deadline, priority=priority)
            answered = True
            return scores
        finally:
            if answered or deadline.expired:  # when given up: so long at least
                self._forecast.scoring_s.observe(self._clock() - began_s, units=1)

    def _learn_prefill(self, request: LLMRequest, seconds: float) -> None:
        self._forecast.prefill_s.observe(seconds, units=self._forecast.count_tokens(prompt_text(request.prompt)))

    def _learn_text(self, request: LLMRequest, output: LLMOutput, seconds: float) -> None:
        tokens = self._forecast.count_tokens(output.text)
        if seconds > 0:
            self._forecast.decode_s.observe(seconds, units=tokens)
        if output.finish_reason in ("stop", "length"):
            self._forecast.fill.observe(tokens, units=max(1, request.sampling.max_tokens))
