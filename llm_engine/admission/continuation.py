"""A stream whose source may be replaced: what was sent is never taken back."""

from dataclasses import replace

from llm_engine.base import LLMOutput
from schemas.errors import ErrorCode, StageError

_UNFINISHED_CHARACTER = "\ufffd"


class TextChanged(StageError):
    """Raised when a text that was begun again became another one than its reader has."""

    def __init__(self, sent_chars: int) -> None:
        message = f"the text was begun again after {sent_chars} characters, and became another one"
        super().__init__(ErrorCode.ENGINE_FAILED, message, retryable=True)


class Continuation:
    """Remembers the text that a reader has, and lets only what goes on from there pass."""

    def __init__(self) -> None:
        self.sent = ""

    def take(self, output: LLMOutput) -> LLMOutput | None:
        """Return what to send for ``output``; None while a new source catches up. Mutates: counts it as sent.

        A source that is stopped before it has caught up (``abort``, ``deadline``) leaves what was sent. Raises
        ``TextChanged`` when the new text is another one.
        """
        if output.text.startswith(self.sent.rstrip(_UNFINISHED_CHARACTER)):
            self.sent = output.text
            return output
        if output.finish_reason in ("abort", "deadline"):
            return replace(output, text=self.sent)
        if output.finish_reason is None and self.sent.startswith(output.text.rstrip(_UNFINISHED_CHARACTER)):
            return None
        raise TextChanged(len(self.sent))
