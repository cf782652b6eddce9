"""How long a text is in tokens, without a tokenizer."""

from collections.abc import Callable

from llm_engine.base import Chat, Prompt

TokenCount = Callable[[str], int]

BYTES_PER_TOKEN = 4
"""Of UTF-8. English has 4.0 to 4.5 in common vocabularies; a Chinese character (3 bytes) is 0.6 to 0.8 tokens of a
multilingual vocabulary, and up to 2.5 of an English one. Costs a token are learnt with the same ruler, so a constant
error cancels out; only a mixture of languages is blurred, by a factor of three at worst."""


def estimated_tokens(text: str) -> int:
    """Return about how many tokens ``text`` has; at least 1."""
    return 1 + len(text.encode("utf-8", "surrogatepass")) // BYTES_PER_TOKEN


def prompt_text(prompt: Prompt | Chat) -> str:
    """Return what a model reads of ``prompt``, our own wording around it left out."""
    if isinstance(prompt, Prompt):
        return f"{prompt.instruction}\n{prompt.data}"
    return "\n".join(message.content for message in prompt.messages)
