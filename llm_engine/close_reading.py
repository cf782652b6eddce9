"""What a language model adds to the reading of a clip. All of it is best effort: None, or nothing, when it is late."""

from collections.abc import Sequence
from dataclasses import dataclass

from llm_engine.base import LLMEngine, LLMRequest, PriorityClass, Prompt, Sampling
from llm_engine.best_effort import best_effort
from llm_engine.faithfulness import FaithfulnessCheck
from llm_engine.labels import Vocabulary
from llm_engine.mood import Mood, read_mood
from llm_engine.prose import passages, plain, sentences
from llm_engine.untrusted import without_commands
from schemas.deadline import Deadline

TOPIC_LANGUAGES = frozenset({"en"})
"""In which it is asked for topics. Best topic right on the development part of benchmarks/text_truth.jsonl: by
similarity 82 %, by likelihood 61 %, by both 86 % (held out: 69, 52, 76 %). In Chinese: 86, 32, 88 %, which is not worth
the time. Safety is not asked for at all: it ranks harmful texts hardly better than chance (area under the curve 0.56
and 0.49 with the labels' descriptions as examples, 0.77 and 0.45 with better ones; similarity 0.99 and more)."""

MAX_TOPIC_WIDTH = 220
"""Of the passage it is asked about: one prefill of about 55 tokens."""

SUMMARY_LANGUAGES = frozenset({"en"})
"""In which SmolLM2-135M writes sentences that have to do with the text: asked about Chinese ones, it answers with our
worked examples."""

MAX_SUMMARY_TOKENS = 24
"""A sentence. A step of one token is 15 to 22 ms of CPU."""

MAX_SUMMARY_CHARS = 900
"""What it reads for a summary: 200 tokens. Of a longer text the beginning, where speakers say what they are about."""


@dataclass(frozen=True, slots=True)
class CloseReader:
    """Asks a language model, on behalf of one class of clips."""

    llm: LLMEngine
    vocabulary: Vocabulary
    check: FaithfulnessCheck
    priority: PriorityClass

    @property
    def model(self) -> str:
        """Name of the weights."""
        return self.llm.model

    async def mood(self, text: str, *, language: str | None, deadline: Deadline) -> Mood | None:
        """Return the mood of ``text``."""
        return await read_mood(
            plain(text),
            llm=self.llm,
            moods=self.vocabulary.moods,
            language=language,
            deadline=deadline,
            priority=self.priority,
        )

    async def topics(self, text: str, *, language: str | None, deadline: Deadline) -> Sequence[float] | None:
        """Return log-probabilities of the topics of ``text``: of its longest passage, since each costs a prefill."""
        parts = passages(without_commands(text), at_most=MAX_TOPIC_WIDTH)
        if language not in TOPIC_LANGUAGES or not parts:
            return None
        prompt = Prompt(self.vocabulary.topics.name, "What is this about?", max(parts, key=len), language)
        asked = self.llm.score(prompt, self.vocabulary.topics, deadline=deadline, priority=self.priority)
        return await best_effort(asked, deadline=deadline)

    async def read_ahead(self, known: Sequence[str], *, deadline: Deadline) -> None:
        """Read what a summary will begin with: title and captions, while the speech is still being transcribed."""
        prompt = _summary_prompt(known, "")
        if prompt.data:
            await best_effort(self.llm.prefetch(prompt, deadline=deadline), deadline=deadline)

    async def summary(
        self, clip_id: str, known: Sequence[str], speech: str, *, language: str | None, deadline: Deadline
    ) -> str:
        """Return one sentence that holds to what is said and ``known``; empty when there is none.

        Not asked about a single sentence, which speaks for itself. ``known`` begins with the title.
        """
        if language not in SUMMARY_LANGUAGES or len(sentences(speech)) < 2:
            return ""
        prompt = _summary_prompt(known, speech)
        request = LLMRequest(
            f"{clip_id}/summary", prompt, deadline, self.priority, Sampling(max_tokens=MAX_SUMMARY_TOKENS)
        )
        written = await best_effort(self._written(request), deadline=deadline)
        return self.check.sentence(written or "", data=prompt.data, title=known[0] if known else "")

    async def _written(self, request: LLMRequest) -> str:
        text = ""
        async for output in self.llm.generate(request):
            text = output.text
        return text


def _summary_prompt(known: Sequence[str], speech: str) -> Prompt:
    data = "\n".join(filter(None, (*map(without_commands, known), speech)))
    return Prompt("summary", "Sum up in one sentence what is said.", data[:MAX_SUMMARY_CHARS])
