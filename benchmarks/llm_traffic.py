"""Requests of all kinds, eight at a time: short and sampled answers, JSON, labels, aborts, and deadlines that pass."""

import asyncio
from collections import Counter
from collections.abc import Iterable, Sequence

from llm_engine.base import Chat, LabelSet, LLMRequest, Message, PriorityClass, Prompt, Sampling
from llm_engine.embedded import EmbeddedEngine
from schemas.deadline import Deadline

AT_ONCE = 8
ABORTED, CUT, GUIDED = 1, 4, 5
"""Kinds of requests; 0 is scored, 2 and 3 are sampled, the others are greedy."""
MAX_TOKENS = {ABORTED: 8, GUIDED: 12}
SHORT_BUDGET_S = 0.02
"""A step or two: the deadline passes while the request waits or runs."""

SUBJECTS = (
    "a cat on a skateboard",
    "拌面的做法",
    "the second goal of the match",
    "how rockets land",
    "ein alter Hafen",
)
SCHEMA = {
    "type": "object",
    "properties": {"mood": {"enum": ["good", "bad"]}},
    "required": ["mood"],
    "additionalProperties": False,
}
TASK = "mood"


async def texts(engine: EmbeddedEngine, requests: Iterable[LLMRequest]) -> list[str]:
    """Ask everything at once; return the texts."""

    async def text(request: LLMRequest) -> str:
        return [output.text async for output in engine.generate(request)][-1]

    return await asyncio.gather(*map(text, requests))


async def serve(engine: EmbeddedEngine, moods: LabelSet, *, numbers: Sequence[int]) -> Counter[str]:
    """Serve the requests of ``numbers``; return how many ended in which way."""
    waiting = iter(numbers)
    ends: Counter[str] = Counter()

    async def client() -> None:
        for number in waiting:
            ends[await _one(engine, moods, number)] += 1

    await asyncio.gather(*(client() for _ in range(AT_ONCE)))
    return ends


async def _one(engine: EmbeddedEngine, moods: LabelSet, number: int) -> str:
    kind = number % AT_ONCE
    subject = f"{number}: {SUBJECTS[number % len(SUBJECTS)]}"
    if kind == 0:
        await engine.score(Prompt(TASK, "", subject), moods, deadline=Deadline.never())
        return "scored"
    request = _request(subject, kind=kind, number=number)
    aborted = kind == ABORTED
    end = "closed"
    async for output in engine.generate(request):
        end = output.finish_reason or end
        if aborted:
            await engine.abort(request.request_id)
    return end


def _request(subject: str, *, kind: int, number: int) -> LLMRequest:
    temperature = 0.8 if kind in (2, 3) else 0.0
    return LLMRequest(
        request_id=str(number),
        prompt=Chat((Message("user", f"Say something about {subject}"),)),
        deadline=Deadline.after(SHORT_BUDGET_S) if kind == CUT else Deadline.never(),
        priority=PriorityClass(number % len(PriorityClass)),
        sampling=Sampling(max_tokens=MAX_TOKENS.get(kind, 3), temperature=temperature, top_p=0.9, seed=number),
        schema=SCHEMA if kind == GUIDED else None,
    )
