"""How prompts are worded: versioned files of ours around data that is not ours.

A task without a file of its own gets the default wording; a label set without one is explained by its own descriptions.
"""

import hashlib
import re
import tomllib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from importlib.resources import files

from llm_engine.base import Chat, LabelSet, Message, Prompt
from llm_engine.prose import plain, says_something
from llm_engine.untrusted import without_commands, without_control_tokens
from schemas.errors import ErrorCode, StageError

PROMPT_FILES: Mapping[str, str] = {
    "default": "default.v1.toml",
    "mood": "mood.v1.toml",
    "topics": "topics.v1.toml",
    "summary": "summary.v1.toml",
}
"""By task. A changed wording is a new file (v2), so that cached answers and results name what they came from."""

MAX_LABELLED_TOKENS = 56
"""Of a text that is labelled, about: with what stands around it, 64 new tokens after the cached examples."""

_SAYS_NOTHING = ("", "N/A", "...")
_DELIMITERS = re.compile(r"<{3,}|>{3,}")
_TOKENS_PER_HAN = 1.8
_TOKENS_PER_LETTER = 0.25
_TOKENS_OTHERWISE = 1.0
"""A character. A small model's vocabulary has few pieces of other scripts."""


@dataclass(frozen=True, slots=True)
class Example:
    """A worked example: a text, and the label or the sentence that is right for it."""

    text: str
    answer: str


@dataclass(frozen=True, slots=True)
class Wording:
    """One prompt file.

    ``spellings``: of labels, where they are not spelt as they are called. ``neutral``: texts by language that have
    every label equally often; what a label gets for them it gets for no reason.
    """

    system: str
    before_text: str = "Text:"
    before_label: str = "Label:"
    spellings: Mapping[str, str] = field(default_factory=dict)
    examples: tuple[Example, ...] = ()
    neutral: Mapping[str, tuple[str, ...]] = field(default_factory=dict)


class PromptBook:
    """The wording of every task. Immutable."""

    def __init__(self, wordings: Mapping[str, Wording], *, version: str) -> None:
        """Take ``wordings`` by task; ``default`` is for all others."""
        self._wordings = wordings
        self.version = version

    def chat(self, prompt: Prompt | Chat) -> Chat:
        """Return the conversation that asks for ``prompt``, its data delimited and free of control tokens and commands.

        Raises ``StageError`` (``EMPTY_PROMPT``) when it says nothing.
        """
        if isinstance(prompt, Chat):
            return _cleaned(prompt)
        data = _data(prompt.data)
        if not says_something(data):
            raise StageError(ErrorCode.EMPTY_PROMPT, f"the prompt of the task {prompt.task!r} says nothing")
        wording = self._wording(prompt.task)
        turns = [Message("system", wording.system)]
        for example in wording.examples:
            turns += [Message("user", _delimited(example.text)), Message("assistant", example.answer)]
        asked = _delimited(data) if wording.examples else f"{prompt.instruction}\n\nText: {_delimited(data)}"
        return Chat((*turns, Message("user", asked)))

    def question(self, prompt: Prompt, labels: LabelSet) -> str | None:
        """Return the text that a label of ``labels`` continues, or None when the data says nothing.

        All of it before the data is the same for one set of labels.
        """
        data = _data(prompt.data[: _most_characters(MAX_LABELLED_TOKENS)]).replace("\n", " ")
        return self._question(data, labels) if says_something(data) else None

    def neutral_questions(self, labels: LabelSet, language: str | None) -> tuple[str, ...]:
        """Return questions about texts that speak for no label more than for another."""
        neutral = self._wording(labels.name).neutral
        texts = neutral.get(language or "") or neutral.get("en") or _SAYS_NOTHING
        return tuple(self._question(text, labels) for text in texts)

    def languages(self, labels: LabelSet) -> tuple[str | None, ...]:
        """Return the languages that have neutral questions of their own; (None,) when all share them."""
        return tuple(self._wording(labels.name).neutral) or (None,)

    def answer(self, label: str, labels: LabelSet) -> str:
        """Return how ``label`` is spelt after a question."""
        return f" {self._wording(labels.name).spellings.get(label, label)}"

    def _question(self, data: str, labels: LabelSet) -> str:
        wording = self._wording(labels.name)
        examples = wording.examples or tuple(Example(labels.descriptions[label][0], label) for label in labels.labels)
        shown = "".join(
            f"{wording.before_text} {example.text}\n{wording.before_label}{self.answer(example.answer, labels)}\n\n"
            for example in examples
        )
        return f"{shown}{wording.before_text} {_without_markers(data, wording)}\n{wording.before_label}"

    def _wording(self, task: str) -> Wording:
        return self._wordings.get(task, self._wordings["default"])


def load_prompts() -> PromptBook:
    """Read the prompts that ship with the project."""
    folder = files("llm_engine").joinpath("prompts")
    texts = {task: folder.joinpath(name).read_text("utf-8") for task, name in PROMPT_FILES.items()}
    version = hashlib.sha256("\0".join(texts.values()).encode()).hexdigest()[:12]
    return PromptBook({task: _wording(text) for task, text in texts.items()}, version=version)


def _wording(text: str) -> Wording:
    table = tomllib.loads(text)
    examples = tuple(Example(e["text"], e.get("label") or e["answer"]) for e in table.pop("examples", ()))
    neutral = {language: tuple(texts) for language, texts in table.pop("neutral", {}).items()}
    return Wording(**{"system": "", **table}, examples=examples, neutral=neutral)


def _data(text: str) -> str:
    """Return ``text`` without what could end it early or be taken for an instruction."""
    return _DELIMITERS.sub(" ", without_commands(plain(text, max_chars=len(text) + 1)))


def _delimited(data: str) -> str:
    return f"<<<{data}>>>"


def _without_markers(data: str, wording: Wording) -> str:
    """Return ``data`` in which nothing looks like another worked example, and not too long."""
    for marker in (wording.before_text, wording.before_label):
        data = re.sub(re.escape(marker), marker.rstrip(":"), data, flags=re.IGNORECASE)
    return "".join(_beginning(data, MAX_LABELLED_TOKENS))


def _beginning(text: str, tokens: float) -> Iterator[str]:
    for character in text:
        tokens -= _cost(character)
        if tokens < 0:
            return
        yield character


def _cost(character: str) -> float:
    if character.isascii():
        return _TOKENS_PER_LETTER
    return _TOKENS_PER_HAN if "\u3400" <= character <= "\u9fff" else _TOKENS_OTHERWISE


def _most_characters(tokens: int) -> int:
    """Return how many characters are certainly more than ``tokens``: nothing behind them need be looked at."""
    return round(8 * tokens / _TOKENS_PER_LETTER)


def _cleaned(chat: Chat) -> Chat:
    messages = tuple(Message(m.role, _cleaned_content(m.content)) for m in chat.messages)
    if not any(says_something(m.content) for m in messages if m.role == "user"):
        raise StageError(ErrorCode.EMPTY_PROMPT, "the chat says nothing")
    return Chat(messages)


def _cleaned_content(content: str) -> str:
    return plain(without_control_tokens(content), max_chars=len(content) + 1)
