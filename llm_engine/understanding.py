"""What a clip's words mean: topics, safety, keywords and a summary, from text that arrives piece by piece.

A clip's title is known at once, its captions when OCR is done, its speech last. Each piece is scored when it comes, so
that after the last word only that piece remains to be scored, and the insights can be had at any moment.

Topics and safety are told by similarity; a language model, where there is one, is a second witness for topics, reads
the mood and writes the summary. All it says is best effort: without it, or when it is late, the answer is whole too.
"""

import asyncio
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Literal
from uuid import uuid4

from llm_engine.base import LabelSet, LLMEngine, LLMRequest, PriorityClass, Prompt, Sampling
from llm_engine.close_reading import CloseReader
from llm_engine.extractive import Sight, one_line, scene_sentence
from llm_engine.faithfulness import FaithfulnessCheck
from llm_engine.keywords import KeywordFinder, Source
from llm_engine.labels import SAFE, Vocabulary
from llm_engine.prose import evenly, passages, plain, sentences
from llm_engine.untrusted import without_commands
from schemas.deadline import Deadline
from schemas.errors import ErrorCode, StageError
from schemas.result import Judgement, Label, SummaryOrigin


class Origin(StrEnum):
    """Where a piece of text comes from."""

    SPEECH = "speech"
    TITLE = "title"
    SCREEN = "text"
    DESCRIPTION = "description"
    SIGHT = "pictures"


Told = Literal["topics", "safety", "summary"]
"""What is told from texts."""

TOPIC_WEIGHTS: Mapping[Origin, float] = {
    Origin.SPEECH: 1.0,
    Origin.TITLE: 0.8,
    Origin.SCREEN: 0.6,
    Origin.DESCRIPTION: 0.6,
    Origin.SIGHT: 0.4,
}
"""How far each origin is believed: log-probabilities are added with these weights, as if the pieces were independent
witnesses. A piece that fits no topic better than another then changes nothing; a mean would let it dilute the rest."""

PASSAGE_WIDTH = 160
"""Two or three spoken sentences, in Latin letters. Longer passages blur what one of them says."""

CLAUSE_WIDTH = 60
"""Harm is looked for in clauses, too: beside harmless words in one passage it would be lost."""

MAX_PASSAGES = 16
MAX_CLAUSES = 48
"""Of one text: two minutes of speech (0.6 ms each). Of more, evenly spaced ones are read, the ends always."""

KEYWORD_WEIGHTS: Mapping[Origin, float] = {
    Origin.SPEECH: 1.0,
    Origin.TITLE: 1.5,
    Origin.SCREEN: 0.8,
    Origin.DESCRIPTION: 0.8,
}

TOPIC_THRESHOLD = 0.4
"""Lowest probability of a best topic that is reported. In benchmarks/text_truth.jsonl 84 % of the development texts
have one, right in 92 % of them (held out: 75 % and 80 %)."""

SECOND_TOPIC_THRESHOLD = 0.2
MAX_TOPICS = 3

LIKELIHOOD_WEIGHT = 0.5
"""How far a language model's word on a topic is believed beside that of similarity (see ``close_reading.py``)."""

SIGHT_ONLY_THRESHOLD = 0.6
"""Without any text. Objects are weak evidence: a bottle is on the table of every topic."""

UNSAFE_PRIOR = 0.015
"""Assumed share of unsafe passages. It puts even odds where 6 of the 522 harmless development texts are flagged and 67
of the 72 harmful ones (held out: 0 of 252, and 21 of 36: what people mean to hide is often missed)."""

SUMMARY_TOKENS = 48
MIN_SUMMARY_SENTENCE = 12
"""Characters, of a caption that may stand as the summary."""

_NOTHING_TO_QUOTE = frozenset({ErrorCode.EMPTY_PROMPT, ErrorCode.PROMPT_TOO_LONG})
"""What was said is only noise, or commands. A summary can still be had from elsewhere."""

_UNINFORMATIVE_SIGHTS = frozenset({"person"})
"""In clips of every topic."""


@dataclass(frozen=True, slots=True)
class TextEvidence:
    """All text of one clip, and what its pictures show. ``on_screen``: one caption (or line) each, in order."""

    title: str = ""
    description: str = ""
    transcript: str = ""
    on_screen: tuple[str, ...] = ()
    language: str | None = None
    sight: Sight = field(default_factory=Sight)


@dataclass(frozen=True, slots=True)
class TextInsights:
    """What the text says; scores as in ``schemas.result``.

    ``safety`` is None when there is no text to judge; its sources are the worst of each text and its likeliest kind of
    harm ("speech:violence"), with the probability of any harm. ``read`` says how many characters of each plain text all
    this is told from.
    """

    topics: tuple[Label, ...] = ()
    safety: Judgement | None = None
    keywords: tuple[str, ...] = ()
    summary: str = ""
    summary_by: SummaryOrigin | None = None
    read: Mapping[Told, Mapping[Origin, int]] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Reader:
    """What reading a clip takes. Shared by all clips of a process.

    ``engine`` tells topics and safety, and quotes. ``llm``, if there is one, adds what only a language model can.
    """

    engine: LLMEngine
    vocabulary: Vocabulary
    keywords: KeywordFinder
    llm: LLMEngine | None = None
    check: FaithfulnessCheck = field(default_factory=FaithfulnessCheck)

    async def warm(self) -> None:
        """Prepare what all clips share: label vectors and, for the language model, the worked examples."""
        await self.engine.warm(self.vocabulary.topics, self.vocabulary.safety)
        if self.llm is not None:
            await self.llm.warm(self.vocabulary.moods, self.vocabulary.topics)

    def closely(self, priority: PriorityClass) -> CloseReader | None:
        """Return who asks the language model for clips of class ``priority``; None when there is no such model."""
        return CloseReader(self.llm, self.vocabulary, self.check, priority) if self.llm is not None else None

    def begin(self, clip_id: str, *, priority: PriorityClass = PriorityClass.REALTIME) -> "Understanding":
        """Return the empty understanding of one clip."""
        return Understanding(self, clip_id, priority=priority)


async def understand(evidence: TextEvidence, *, reader: Reader, deadline: Deadline) -> TextInsights:
    """Return what ``evidence`` says. Raises ``DeadlineExceeded``; ``Reader.begin`` lets you keep what is ready then."""
    understanding = reader.begin(uuid4().hex)
    texts = {
        Origin.TITLE: evidence.title,
        Origin.DESCRIPTION: evidence.description,
        Origin.SCREEN: "\n".join(evidence.on_screen),
        Origin.SPEECH: evidence.transcript,
    }
    await asyncio.gather(
        *(understanding.read(o, text, language=evidence.language, deadline=deadline) for o, text in texts.items()),
        understanding.look(evidence.sight, deadline=deadline),
    )
    await asyncio.gather(*(understanding.read_closely(origin, deadline=deadline) for origin in texts))
    return understanding.insights()


class Understanding:
    """What is understood of one clip so far. Belongs to one event loop."""

    def __init__(self, reader: Reader, clip_id: str, *, priority: PriorityClass) -> None:
        self._reader = reader
        self._closely = reader.closely(priority)
        self._priority = priority
        self._clip_id = clip_id
        self._texts: dict[Origin, str] = {}
        self._languages: dict[Origin, str | None] = {}
        self._sight = Sight()
        self._topics: dict[Origin, list[float]] = {}
        self._likely_topics: dict[Origin, Sequence[float]] = {}
        self._harm: dict[Origin, tuple[float, str]] = {}
        self._read: dict[Told, dict[Origin, int]] = {"topics": {}, "safety": {}, "summary": {}}
        self._quote = ""
        self._written = ""

    @property
    def model(self) -> str:
        """Names of the engines whose word is in the insights."""
        used = [self._reader.engine.model]
        if self._closely is not None and (self._likely_topics or self._written):
            used.append(self._closely.model)
        return "+".join(used)

    async def read(self, origin: Origin, text: str, *, language: str | None, deadline: Deadline) -> None:
        """Take in the text of ``origin``, replacing what was read from there before.

        Topics, safety and (of speech) the summary are asked for at once, so that an engine can batch them. Raises
        ``DeadlineExceeded``; keywords and a plain summary of the text can be had all the same.
        """
        text = plain(text)
        self._texts[origin], self._languages[origin] = text, language
        if text:
            self._read["summary"][origin] = len(text)
        asked = [
            self._score_topics(origin, text, language=language, deadline=deadline),
            self._score_safety(origin, text, language=language, deadline=deadline),
        ]
        if origin is Origin.SPEECH and text:
            asked.append(self._quote_from(text, language=language, deadline=deadline))
        await asyncio.gather(*asked)

    async def read_closely(self, origin: Origin, *, deadline: Deadline) -> bool:
        """Have the language model, if there is one, read the text of ``origin`` that ``read`` has taken in.

        Returns whether that changed the insights. Best effort: what does not come by ``deadline`` changes nothing. Of
        all texts but speech, which comes last, it reads ahead for the summary.
        """
        text, language = self._texts.get(origin, ""), self._languages.get(origin)
        if self._closely is None or not text:
            return False
        likely = self._closely.topics(text, language=language, deadline=deadline)
        known = [self._texts.get(o, "") for o in (Origin.TITLE, Origin.SCREEN)]
        if origin is Origin.SPEECH:
            written = self._closely.summary(self._clip_id, known, text, language=language, deadline=deadline)
            topics, self._written = await asyncio.gather(likely, written)
        else:
            topics, _ = await asyncio.gather(likely, self._closely.read_ahead(known, deadline=deadline))
        if topics is not None:
            self._likely_topics[origin] = topics
        return topics is not None or bool(self._written)

    async def look(self, sight: Sight, *, deadline: Deadline) -> None:
        """Take in what the pictures show. Raises ``DeadlineExceeded``."""
        self._sight = sight
        words = [word for word in sight.words if word not in _UNINFORMATIVE_SIGHTS]
        await self._score_topics(Origin.SIGHT, ", ".join(words), language="en", deadline=deadline)
        if sight.words:
            self._read["topics"][Origin.SIGHT] = self._read["summary"][Origin.SIGHT] = len(sight.words)

    def insights(self) -> TextInsights:
        """Return what can be said now. Does not mutate."""
        summary, by = self._best_summary()
        read = {told: dict(of_each) for told, of_each in self._read.items() if of_each}
        return TextInsights(self._best_topics(), self._judge_safety(), self._find_keywords(), summary, by, read)

    async def _score_topics(self, origin: Origin, text: str, *, language: str | None, deadline: Deadline) -> None:
        parts = evenly(passages(without_commands(text), at_most=PASSAGE_WIDTH), MAX_PASSAGES)
        scores = await self._score(parts, self._reader.vocabulary.topics, language=language, deadline=deadline)
        if scores:
            self._topics[origin] = [sum(column) / len(scores) for column in zip(*scores, strict=True)]
        if text:
            self._read["topics"][origin] = len(text)

    async def _score_safety(self, origin: Origin, text: str, *, language: str | None, deadline: Deadline) -> None:
        """Keep the worst part: harmless words around it do not make it better."""
        labels = self._reader.vocabulary.safety
        chars = len(text)
        text = without_commands(text)
        wholes = passages(text, at_most=PASSAGE_WIDTH)
        clauses = dict.fromkeys(c for sentence in sentences(text) for c in passages(sentence, at_most=CLAUSE_WIDTH))
        parts = dict.fromkeys((*evenly(wholes, MAX_PASSAGES), *evenly(tuple(clauses), MAX_CLAUSES)))
        scores = await self._score(tuple(parts), labels, language=language, deadline=deadline)
        if scores:
            self._harm[origin] = max(_harm(passage, labels) for passage in scores)
        if chars:
            self._read["safety"][origin] = chars

    async def _score(
        self, parts: Sequence[str], labels: LabelSet, *, language: str | None, deadline: Deadline
    ) -> Sequence[Sequence[float]]:
        instruction = f"Which of the {labels.name} of a short video do these words speak of?"
        prompts = [Prompt(labels.name, instruction, part, language) for part in parts]
        return await asyncio.gather(
            *(self._reader.engine.score(p, labels, deadline=deadline, priority=self._priority) for p in prompts)
        )

    async def _quote_from(self, text: str, *, language: str | None, deadline: Deadline) -> None:
        request = LLMRequest(
            request_id=f"{self._clip_id}/quote",
            prompt=Prompt("summary", "Sum up in one sentence what is said.", text, language),
            deadline=deadline,
            priority=self._priority,
            sampling=Sampling(max_tokens=SUMMARY_TOKENS),
        )
        try:
            async for output in self._reader.engine.generate(request):
                self._quote = output.text
        except StageError as error:
            if error.code not in _NOTHING_TO_QUOTE:
                raise

    def _best_topics(self) -> tuple[Label, ...]:
        if not self._topics:
            return ()
        if set(self._topics) == {Origin.SIGHT}:
            added, threshold = self._topics[Origin.SIGHT], SIGHT_ONLY_THRESHOLD
        else:
            weighted = (
                [TOPIC_WEIGHTS[origin] * score for score in self._witnessed(origin, scores)]
                for origin, scores in self._topics.items()
            )
            added, threshold = [sum(column) for column in zip(*weighted, strict=True)], TOPIC_THRESHOLD
        ranked = sorted(
            zip(_normalised(added), self._reader.vocabulary.topics.labels, strict=True), key=lambda scored: -scored[0]
        )
        if ranked[0][0] < threshold:
            return ()
        lowest = SECOND_TOPIC_THRESHOLD
        return tuple(Label(label=label, score=score) for score, label in ranked[:MAX_TOPICS] if score >= lowest)

    def _witnessed(self, origin: Origin, similarity: Sequence[float]) -> Sequence[float]:
        """Return what similarity and likelihood say together of the topics of one text."""
        if (likelihood := self._likely_topics.get(origin)) is None:
            return similarity
        both = zip(similarity, likelihood, strict=True)
        return [similar + LIKELIHOOD_WEIGHT * likely for similar, likely in both]

    def _judge_safety(self) -> Judgement | None:
        if not self._harm:
            return None
        sources = {f"{origin}:{kind}": harm for origin, (harm, kind) in self._harm.items()}
        worst = max(sources.values())
        unsafe = worst >= 0.5
        return Judgement(label="unsafe" if unsafe else SAFE, score=worst if unsafe else 1 - worst, sources=sources)

    def _find_keywords(self) -> tuple[str, ...]:
        return self._reader.keywords.find(
            [Source(text, KEYWORD_WEIGHTS[origin], self._languages[origin]) for origin, text in self._texts.items()]
        )

    def _best_summary(self) -> tuple[str, SummaryOrigin | None]:
        if self._written:
            return one_line(self._written), "model"
        if quote := self._best_quote():
            return one_line(quote), "quote"
        sentence = scene_sentence(self._sight)
        return sentence, "pictures" if sentence else None

    def _best_quote(self) -> str:
        speech, title, screen = (self._texts.get(o, "") for o in (Origin.SPEECH, Origin.TITLE, Origin.SCREEN))
        captions = [line for line in sentences(without_commands(screen)) if len(line) >= MIN_SUMMARY_SENTENCE]
        candidates = (
            self._quote,
            *sentences(without_commands(speech))[:1],
            without_commands(title),
            *sorted(captions, key=len, reverse=True)[:1],
        )
        return next(filter(None, candidates), "")


def _harm(log_probabilities: Sequence[float], labels: LabelSet) -> tuple[float, str]:
    """Return the probability of any harm under ``UNSAFE_PRIOR``, and its likeliest kind."""
    by_label = dict(zip(labels.labels, map(math.exp, log_probabilities), strict=True))
    safe = by_label.pop(SAFE) * (1 - UNSAFE_PRIOR)
    harm = sum(by_label.values()) * UNSAFE_PRIOR
    return harm / (harm + safe), max(by_label, key=lambda label: by_label[label])


def _normalised(log_weights: Sequence[float]) -> list[float]:
    highest = max(log_weights)
    weights = [math.exp(weight - highest) for weight in log_weights]
    return [weight / sum(weights) for weight in weights]
