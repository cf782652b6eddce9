"""SmolLM2's tokenizer, built from the GGUF file's own metadata: byte-level BPE, digits one by one, ChatML."""

import hashlib
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from tokenizers import Tokenizer, decoders, models, pre_tokenizers

from llm_engine.backends.gguf_file import GgufFile
from llm_engine.base import Chat, Message

KIND: Final = ("gpt2", "smollm")
"""What the file must call its kind of vocabulary, and its way of cutting text before merging."""

CHAT_TEMPLATE_SHA256: Final = "872be49dbb638044ad01b60388f48d469ff2980e5f0dccdc22ec907db54d0788"
"""Of the template that ``chat`` follows. A template is a program, and none out of a file is run."""

DEFAULT_SYSTEM: Final = "You are a helpful AI assistant named SmolLM, trained by Hugging Face"
"""What that template says where the chat does not begin with a message of the system."""

_CONTROL: Final = 3
"""GGUF's type of a token that is no text."""

_TURN_BEGINS, _TURN_ENDS, _TEXT_ENDS = "<|im_start|>", "<|im_end|>", "<|endoftext|>"


class GgufTokenizer:
    """A ``Tokenizer`` over one GGUF file. Immutable; thread-safe, and without the GIL while it encodes.

    The few bytes that the vocabulary lacks (some control characters, planes of Unicode without characters) get no
    token. Raises ``ConfigurationError``: ``MODEL_MISSING`` without the file, ``MODEL_FAILED`` for one with another kind
    of tokenizer.
    """

    def __init__(self, path: Path) -> None:
        file = GgufFile(path)
        _check(file)
        tokens = _texts(file, "tokenizer.ggml.tokens")
        self._bpe = _byte_level_bpe(file, tokens)
        self._control = _control_tokens(file, tokens)
        self._control_ids = frozenset(self._control.values())
        self._turn_begins, self._turn_ends = self._control[_TURN_BEGINS], self._control[_TURN_ENDS]
        self.stop_ids = frozenset({self._turn_ends, self._control[_TEXT_ENDS]})
        self.vocab_size = len(tokens)

    def encode(self, text: str) -> list[int]:
        """Return the tokens of ``text``, with nothing around them. A control token spelt out in it is plain text."""
        text = text.encode("utf-8", "replace").decode("utf-8")  # lone surrogates become question marks
        ids: list[int] = self._bpe.encode(text, add_special_tokens=False).ids
        return ids

    def chat(self, chat: Chat) -> list[int]:
        """Return the tokens of ``chat`` and of the opening of the answer."""
        messages = chat.messages
        if messages and messages[0].role != "system":
            messages = (Message("system", DEFAULT_SYSTEM), *messages)
        turns = [token for message in messages for token in self._turn(message)]
        return [*turns, self._turn_begins, *self.encode("assistant\n")]

    def decode(self, token_ids: Sequence[int]) -> str:
        """Return the text, control tokens left out. A character whose last bytes are missing becomes U+FFFD."""
        text: str = self._bpe.decode([token for token in token_ids if token not in self._control_ids])
        return text

    def to_json(self) -> str:
        """Return the tokenizer in Hugging Face's format, control tokens marked as such, for other libraries."""
        marked = Tokenizer.from_str(self._bpe.to_str())
        marked.add_special_tokens(list(self._control))
        text: str = marked.to_str()
        return text

    def _turn(self, message: Message) -> list[int]:
        said = self.encode(f"{message.role}\n{message.content}")
        return [self._turn_begins, *said, self._turn_ends, *self.encode("\n")]


def _check(file: GgufFile) -> None:
    found = file.values.get("tokenizer.ggml.model"), file.values.get("tokenizer.ggml.pre")
    if found != KIND:
        file.fail(f"has a tokenizer of the kind {found}, and only {KIND} is understood")
    template = file.values.get("tokenizer.chat_template")
    if hashlib.sha256(str(template).encode()).hexdigest() != CHAT_TEMPLATE_SHA256:
        file.fail("has another chat template than SmolLM2")


def _texts(file: GgufFile, name: str) -> list[str]:
    value = file.values.get(name)
    if not isinstance(value, list):
        file.fail(f"has no list {name}")
    return [text for text in value if isinstance(text, str)]


def _control_tokens(file: GgufFile, tokens: Sequence[str]) -> dict[str, int]:
    kinds = file.values.get("tokenizer.ggml.token_type")
    if not isinstance(kinds, list) or len(kinds) != len(tokens):
        file.fail("does not say the type of each token")
    control = {token: number for number, token in enumerate(tokens) if kinds[number] == _CONTROL}
    if missing := {_TURN_BEGINS, _TURN_ENDS, _TEXT_ENDS} - control.keys():
        file.fail(f"has no control tokens {', '.join(sorted(missing))}")
    return control


def _byte_level_bpe(file: GgufFile, tokens: Sequence[str]) -> Tokenizer:
    pairs = (merge.partition(" ") for merge in _texts(file, "tokenizer.ggml.merges"))
    vocabulary = {token: number for number, token in enumerate(tokens)}
    try:
        bpe = Tokenizer(models.BPE(vocab=vocabulary, merges=[(left, right) for left, _, right in pairs]))
    except Exception as error:  # noqa: BLE001  (the library raises nothing narrower)
        file.fail("has merges that its vocabulary lacks", error)
    digits = pre_tokenizers.Digits(individual_digits=True)
    bpe.pre_tokenizer = pre_tokenizers.Sequence([digits, pre_tokenizers.ByteLevel(add_prefix_space=False)])
    bpe.decoder = decoders.ByteLevel()
    return bpe
