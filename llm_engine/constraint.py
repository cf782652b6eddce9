"""What an answer may still say."""

from typing import Protocol

import numpy as np
import numpy.typing as npt

TokenMask = npt.NDArray[np.bool_]
"""Which tokens may come next, shape (vocabulary,)."""


class Constraint(Protocol):
    """The rules of one answer, and how far it has come."""

    @property
    def finished(self) -> bool:
        """Whether the answer is whole: from here on only stop tokens may come."""
        ...

    def mask(self) -> TokenMask:
        """Return what may come next: at least one token. Does not mutate. Raises ``StageError`` (``ENGINE_FAILED``)."""
        ...

    def advance(self, token_id: int) -> None:
        """Take in the chosen token. Raises ``StageError`` (``ENGINE_FAILED``) for one that the mask ruled out."""
        ...
