"""The reading branch: what the language model adds to a result, and that a clip never waits for it in vain."""

import asyncio
from dataclasses import replace
from pathlib import Path
from typing import Any

from llm_engine.base import LabelSet, Prompt
from schemas.deadline import Deadline
from schemas.errors import DeadlineExceeded
from schemas.job import Lane
from schemas.perception import Polarity
from schemas.result import FusedResult, ResultStatus
from tests.unit.fakes import FakeDecoders, FakeStage, FakeTranscriber, analyzer, job, toolbox, transcript
from tests.unit.test_close_reading import Oracle
from tests.unit.virtual_time import in_virtual_time, within

SPEECH = "This is negative. We fry onions in a pan and add the rice."
CLIP = Path("/clips/clip.mp4")


class Sleeper(Oracle):
    """Takes as long as it is given."""

    async def score(self, prompt: Prompt, labels: LabelSet, *, deadline: Deadline, **options: Any) -> list[float]:
        await asyncio.sleep(deadline.remaining())
        raise DeadlineExceeded


async def analyze(oracle: Oracle | None, *, deadline: Deadline | None = None, **fields: Any) -> FusedResult:
    tools = toolbox()
    tools = replace(
        tools,
        reader=replace(tools.reader, llm=oracle),
        sentiment=FakeStage("sentiment", lambda _: Polarity(0.5, "lexicon")),
        transcribe=FakeTranscriber("transcribe", lambda _: transcript(SPEECH)),
    )
    async with analyzer(tools, FakeDecoders()) as subject:
        deadline = deadline or Deadline.never()
        return (await subject.analyze(job(**fields), CLIP, deadline=deadline)).result


async def test_the_mood_is_fused_from_lexicon_and_model() -> None:
    alone, both = await analyze(None), await analyze(Oracle())
    assert alone.sentiment is not None
    assert both.sentiment is not None
    assert (alone.sentiment.label, both.sentiment.label) == ("positive", "negative")


async def test_the_result_says_who_read_and_who_wrote() -> None:
    alone, both = await analyze(None), await analyze(Oracle())
    assert (alone.summary_by, both.summary_by) == ("quote", "model")
    for name in ("text", "sentiment"):
        assert "oracle" not in (alone.stages[name].model or "")
        assert "oracle" in (both.stages[name].model or "")


@in_virtual_time
async def test_a_model_that_is_too_slow_leaves_a_complete_answer_in_time() -> None:
    deadline = within(0.4)
    result = await analyze(Sleeper(), deadline=deadline)
    assert not deadline.expired
    assert result.status is ResultStatus.COMPLETE
    assert result.sentiment is not None
    assert result.sentiment.label == "positive"
    assert result.stages["sentiment"].model == "fake"


async def test_a_lane_is_a_class_of_requests() -> None:
    for lane in Lane:
        oracle = Oracle()
        await analyze(oracle, lane=lane)
        assert {priority.name for _, priority in oracle.scored} == {lane.name}
