"""Decisions by likelihood: how probable a model finds each label as the continuation of a prompt.

Labels are compared token by token where their spellings part (mostly at the first token, so that one prefill decides):
the probability of a label is that of decoding it when nothing but labels can be decoded. It is then divided by what the
label gets on average for texts that speak for no label (contextual calibration; Zhao et al. 2021, "Calibrate Before
Use": texts that say nothing; Fei et al. 2023: texts of the domain) and normalised, so that all labels are equally
likely beforehand.
"""

import asyncio
import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import takewhile
from typing import Protocol

from llm_engine.base import LabelSet, PriorityClass, Prompt
from llm_engine.prompting import PromptBook
from llm_engine.tokenizer import Tokenizer
from schemas.deadline import Deadline

LogProbabilities = Sequence[float]

MAX_REMEMBERED = 64
"""Label sets and languages whose calibration is kept. The project has two sets."""


class NextToken(Protocol):
    """What an engine must be able to do to score labels."""

    async def __call__(
        self, token_ids: Sequence[int], candidates: Sequence[int], *, deadline: Deadline, priority: PriorityClass
    ) -> LogProbabilities:
        """Return log P(candidate | token_ids) for each candidate. Raises ``DeadlineExceeded``."""
        ...


@dataclass(slots=True)
class _Node:
    """Where spellings part. ``label`` is set where one ends."""

    children: dict[int, "_Node"] = field(default_factory=dict)
    label: int | None = None


class LabelScorer:
    """Scores labels with any model that gives next-token probabilities. Belongs to one event loop."""

    def __init__(self, tokenizer: Tokenizer, prompts: PromptBook, next_token: NextToken) -> None:
        self._tokenizer = tokenizer
        self._prompts = prompts
        self._next_token = next_token
        self._neutral: dict[_NeutralKey, LogProbabilities] = {}

    async def score(
        self, prompt: Prompt, labels: LabelSet, *, deadline: Deadline, priority: PriorityClass
    ) -> LogProbabilities:
        """Return calibrated log-probabilities over ``labels.labels``. Raises ``DeadlineExceeded``."""
        question = self._prompts.question(prompt, labels)
        if question is None:
            return _normalised([0.0] * len(labels.labels))
        neutral = await self.neutral(labels, prompt.language, deadline=deadline, priority=priority)
        raw = await self._raw(question, labels, deadline=deadline, priority=priority)
        return _normalised([score - prior for score, prior in zip(raw, neutral, strict=True)])

    async def neutral(
        self, labels: LabelSet, language: str | None, *, deadline: Deadline, priority: PriorityClass
    ) -> LogProbabilities:
        """Return what ``labels`` get for no reason (``PromptBook.neutral_questions``): asked once, then remembered."""
        key = labels.name, labels.labels, language
        if key not in self._neutral:
            asked = (
                self._raw(question, labels, deadline=deadline, priority=priority)
                for question in self._prompts.neutral_questions(labels, language)
            )
            answers = await asyncio.gather(*asked)
            self._neutral[key] = [sum(column) / len(answers) for column in zip(*answers, strict=True)]
            if len(self._neutral) > MAX_REMEMBERED:
                self._neutral.pop(next(iter(self._neutral)))
        return self._neutral[key]

    async def warm(self, labels: LabelSet) -> None:
        """Ask the neutral questions of every language, which also puts the worked examples into the prefix cache."""
        for language in self._prompts.languages(labels):
            await self.neutral(labels, language, deadline=Deadline.never(), priority=PriorityClass.REALTIME)

    def shared_prefix(self, labels: LabelSet) -> list[int]:
        """Return the tokens that all questions about ``labels`` begin with."""
        questions = (self._tokenizer.encode(question) for question in self._prompts.neutral_questions(labels, None))
        columns = zip(*questions, strict=False)  # as long as the shortest
        return [column[0] for column in takewhile(lambda column: len(set(column)) == 1, columns)]

    async def _raw(
        self, question: str, labels: LabelSet, *, deadline: Deadline, priority: PriorityClass
    ) -> LogProbabilities:
        asked = self._tokenizer.encode(question)
        found = [-math.inf] * len(labels.labels)
        pending: list[tuple[_Node, list[int], float]] = [(self._spellings(labels), [], 0.0)]
        while pending:
            node, path, so_far = pending.pop()
            while len(node.children) == 1 and node.label is None:
                (token, node), *_ = node.children.items()
                path = [*path, token]
            if node.label is not None:
                found[node.label] = so_far
                continue
            candidates = list(node.children)
            scores = await self._next_token([*asked, *path], candidates, deadline=deadline, priority=priority)
            branches = zip(candidates, _normalised(scores), strict=True)
            pending += [(node.children[token], [*path, token], so_far + score) for token, score in branches]
        return found

    def _spellings(self, labels: LabelSet) -> _Node:
        root = _Node()
        for index, label in enumerate(labels.labels):
            node = root
            for token in [*self._tokenizer.encode(self._prompts.answer(label, labels)), *self._end]:
                node = node.children.setdefault(token, _Node())
            node.label = index
        return root

    @property
    def _end(self) -> list[int]:
        """What follows a label; it tells one label from another that begins with it."""
        return self._tokenizer.encode("\n")[:1]


_NeutralKey = tuple[str, tuple[str, ...], str | None]


def _normalised(scores: LogProbabilities) -> list[float]:
    highest = max(scores)
    total = highest + math.log(sum(math.exp(score - highest) for score in scores))
    return [score - total for score in scores]
