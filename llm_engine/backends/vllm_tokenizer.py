"""The tokenizer of a model folder in Hugging Face's layout: ``tokenizer.json`` and a chat template, no torch."""

import json
import re
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, NoReturn

from jinja2 import TemplateError
from jinja2.sandbox import ImmutableSandboxedEnvironment
from tokenizers import Tokenizer

from llm_engine.base import Chat
from schemas.errors import ConfigurationError, ErrorCode


class FolderTokenizer:
    """Encodes without the engine, so that a prompt is measured before it is sent. Thread-safe."""

    def __init__(self, folder: Path) -> None:
        """Read ``folder`` (0.2 s). Raises ``ConfigurationError`` when it isn't a tokenizer's."""
        try:
            self._load(folder)
        except (OSError, ValueError, KeyError) as error:
            raise ConfigurationError(
                ErrorCode.MODEL_MISSING, f"no tokenizer with a chat template in {folder}: {error}"
            ) from error

    def _load(self, folder: Path) -> None:
        described = json.loads((folder / "tokenizer.json").read_text("utf-8"))
        self._markup = Tokenizer.from_str(json.dumps(described))
        # Without them a control token is spelt like any other text, whoever writes it.
        added = described.pop("added_tokens", [])
        self._text = Tokenizer.from_str(json.dumps(described | {"added_tokens": []}))
        literals = sorted({token["content"] for token in added}, key=len, reverse=True)
        self._control = re.compile("|".join(map(re.escape, literals)) or r"(?!)")
        config = _read(folder / "tokenizer_config.json")
        self._names = {
            name: _content(config.get(name)) for name in ("bos_token", "eos_token", "pad_token", "unk_token")
        }
        self._template = _compiled(_template(folder, config))
        self._stop_ids = self._ends(_read(folder / "generation_config.json"))

    @property
    def stop_ids(self) -> frozenset[int]:
        """Tokens that end an answer."""
        return self._stop_ids

    def encode(self, text: str) -> list[int]:
        """Return the tokens of ``text``, with nothing around them. A control token spelt out in it is plain text."""
        ids: list[int] = self._text.encode(text, add_special_tokens=False).ids
        return ids

    def chat(self, chat: Chat) -> list[int]:
        """Return the tokens of ``chat`` and of the opening of the answer.

        Control tokens are taken out of what is said, again and again until none appears: taking one out may join the
        halves of another. Raises ``ValueError`` when the template refuses the chat.
        """
        messages = [{"role": message.role, "content": self._harmless(message.content)} for message in chat.messages]
        try:
            text = self._template.render(messages=messages, add_generation_prompt=True, **self._names)
        except TemplateError as error:
            raise ValueError(f"the chat template fails: {error}") from error
        ids: list[int] = self._markup.encode(text, add_special_tokens=False).ids
        return ids

    def decode(self, token_ids: Sequence[int]) -> str:
        """Return the text, control tokens left out. A character whose last bytes are missing becomes U+FFFD."""
        text: str = self._markup.decode(list(token_ids), skip_special_tokens=True)
        return text

    def _harmless(self, text: str) -> str:
        while self._control.search(text):
            text = self._control.sub("", text)
        return text

    def _ends(self, generation: dict[str, Any]) -> frozenset[int]:
        stated = generation.get("eos_token_id", [])
        ids = {stated} if isinstance(stated, int) else set(stated)
        named = self._markup.token_to_id(self._names["eos_token"])
        return frozenset(ids if named is None else ids | {named})


def _read(file: Path) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(file.read_text("utf-8")) if file.is_file() else {}
    return found


def _content(token: object) -> str:
    """Configs name a token by its text, or by a table that holds it."""
    return str(token["content"]) if isinstance(token, dict) else str(token or "")


def _template(folder: Path, config: dict[str, Any]) -> str:
    file = folder / "chat_template.jinja"
    found = file.read_text("utf-8") if file.is_file() else config["chat_template"]
    if isinstance(found, list):
        found = next(entry["template"] for entry in found if entry["name"] == "default")
    return str(found)


def _compiled(template: str) -> Any:
    environment = ImmutableSandboxedEnvironment(
        trim_blocks=True, lstrip_blocks=True, extensions=["jinja2.ext.loopcontrols"]
    )
    environment.globals |= {"raise_exception": _refuse, "strftime_now": lambda form: datetime.now(UTC).strftime(form)}
    return environment.from_string(template)


def _refuse(message: str) -> NoReturn:
    raise ValueError(message)
