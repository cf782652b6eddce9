"""Labels are compared where their spellings part, and freed of what they get for no reason."""

from collections.abc import Sequence
from math import exp, log

import pytest

from llm_engine.base import Chat, LabelSet, PriorityClass, Prompt
from llm_engine.prompting import PromptBook, Wording
from llm_engine.scoring import LabelScorer
from schemas.deadline import Deadline

NEVER = Deadline.never()
MEALS = LabelSet("meals", {"soup": ("hot",), "cake": ("sweet",)})
TWINS = LabelSet("twins", {"ice": ("cold",), "ice tea": ("cold drink",), "ice cream": ("cold cream",)})


class Words:
    """One token a word."""

    def __init__(self) -> None:
        self.known: list[str] = []
        self.stop_ids = frozenset[int]()

    def encode(self, text: str) -> list[int]:
        return [self._number(word) for word in text.replace("\n", " \n ").split(" ") if word]

    def chat(self, chat: Chat) -> list[int]:
        raise NotImplementedError

    def decode(self, token_ids: Sequence[int]) -> str:
        return " ".join(self.known[i] for i in token_ids)

    def _number(self, word: str) -> int:
        if word not in self.known:
            self.known.append(word)
        return self.known.index(word)


class Model:
    """Likes ``soup`` twice as much as anything else, and ten times more what the text itself says."""

    def __init__(self, words: Words) -> None:
        self.words = words
        self.asked: list[str] = []

    async def __call__(
        self, token_ids: Sequence[int], candidates: Sequence[int], *, deadline: Deadline, priority: PriorityClass
    ) -> list[float]:
        text = self.words.decode(token_ids)
        self.asked.append(text)
        data = text.rpartition("Text:")[2]
        names = [self.words.decode([c]) for c in candidates]
        return [log((2 if name == "soup" else 1) * (10 if name in data.split() else 1)) - 5 for name in names]


@pytest.fixture
def model() -> Model:
    return Model(Words())


@pytest.fixture
def scorer(model: Model) -> LabelScorer:
    return LabelScorer(model.words, PromptBook({"default": Wording("")}, version="1"), model)


async def probabilities(scorer: LabelScorer, text: str, labels: LabelSet) -> dict[str, float]:
    prompt = Prompt(labels.name, "", text)
    scores = await scorer.score(prompt, labels, deadline=NEVER, priority=PriorityClass.REALTIME)
    return dict(zip(labels.labels, map(exp, scores), strict=True))


async def test_a_favourite_of_the_model_is_not_a_favourite_any_more(scorer: LabelScorer) -> None:
    assert await probabilities(scorer, "something", MEALS) == pytest.approx({"soup": 0.5, "cake": 0.5})


async def test_what_the_text_speaks_for_is_likeliest(scorer: LabelScorer) -> None:
    assert await probabilities(scorer, "a cake please", MEALS) == pytest.approx({"soup": 1 / 11, "cake": 10 / 11})


async def test_labels_that_part_at_once_cost_one_question(scorer: LabelScorer, model: Model) -> None:
    await scorer.warm(MEALS)
    before = len(model.asked)
    await probabilities(scorer, "a cake", MEALS)
    assert len(model.asked) == before + 1


async def test_calibration_is_asked_for_once(scorer: LabelScorer, model: Model) -> None:
    await probabilities(scorer, "a cake", MEALS)
    before = len(model.asked)
    await probabilities(scorer, "a soup", MEALS)
    assert len(model.asked) == before + 1


async def test_a_label_that_begins_another_is_told_from_it(scorer: LabelScorer) -> None:
    found = await probabilities(scorer, "tea", TWINS)
    assert sum(found.values()) == pytest.approx(1)
    assert max(found, key=found.__getitem__) == "ice tea"


async def test_a_text_that_says_nothing_is_not_asked_about(scorer: LabelScorer, model: Model) -> None:
    assert await probabilities(scorer, "🙂", MEALS) == pytest.approx({"soup": 0.5, "cake": 0.5})
    assert model.asked == []


async def test_the_shared_prefix_begins_every_question(scorer: LabelScorer, model: Model) -> None:
    await probabilities(scorer, "a cake", MEALS)
    prefix = model.words.decode(scorer.shared_prefix(MEALS))
    assert "sweet" in prefix
    assert all(asked.startswith(prefix) for asked in model.asked)
