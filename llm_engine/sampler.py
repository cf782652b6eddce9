"""From logits to the next token."""

import numpy as np
import numpy.typing as npt

from llm_engine.base import Sampling
from llm_engine.constraint import Constraint
from schemas.errors import ErrorCode, StageError

Row = npt.NDArray[np.float32]
"""Logits of one position, shape (vocabulary,)."""

Doubles = npt.NDArray[np.float64]


class Sampler:
    """Chooses the tokens of one answer, one after another.

    Equal logits, ``seed`` and constraint give equal tokens: the random numbers are this answer's own, whatever else
    the engine does meanwhile. Not thread-safe. Raises ``ValueError`` for a temperature, ``top_p`` or seed that is none.
    """

    def __init__(self, sampling: Sampling, constraint: Constraint | None = None) -> None:
        if not (sampling.temperature >= 0 and 0 < sampling.top_p <= 1):
            raise ValueError(f"temperature must be 0 or more and top_p in (0, 1]: {sampling}")
        self._temperature = sampling.temperature
        self._top_p = sampling.top_p
        self._constraint = constraint
        self._random = np.random.default_rng(sampling.seed)

    def choose(self, logits: Row) -> int:
        """Return the next token and move the constraint past it. Does not mutate ``logits``.

        Raises ``StageError`` (``ENGINE_FAILED``) for logits that are no numbers, or that leave nothing to choose.
        """
        token_id = self._pick(_checked(self._allowed(_checked(logits))))
        if self._constraint is not None:
            self._constraint.advance(token_id)
        return token_id

    def _allowed(self, logits: Row) -> Row:
        if self._constraint is None:
            return logits
        return np.where(self._constraint.mask(), logits, np.float32(-np.inf))

    def _pick(self, logits: Row) -> int:
        if self._temperature == 0:
            return int(np.argmax(logits))  # of equals the lowest id
        candidates, probabilities = _nucleus(logits, temperature=self._temperature, top_p=self._top_p)
        cumulative = np.cumsum(probabilities)
        drawn = self._random.random() * cumulative[-1]
        return int(candidates[np.searchsorted(cumulative[:-1], drawn, side="right")])


def log_softmax(logits: Row) -> Doubles:
    """Return log-probabilities in the order of ``logits``, in double precision: labels differ by little.

    Raises ``StageError`` (``ENGINE_FAILED``) like ``Sampler.choose``.
    """
    shifted = _checked(logits).astype(np.float64) - float(np.max(logits))
    result: Doubles = shifted - np.log(np.sum(np.exp(shifted)))
    return result


def _nucleus(logits: Row, *, temperature: float, top_p: float) -> tuple[npt.NDArray[np.intp], Doubles]:
    """Return the fewest tokens that hold ``top_p`` of the probability, of equals the lowest ids; their probabilities.

    Nucleus sampling: Holtzman et al. 2020, "The Curious Case of Neural Text Degeneration".
    """
    with np.errstate(over="ignore"):  # a tiny temperature sends all but the best to minus infinity, as it should
        weights = np.exp((logits.astype(np.float64) - float(np.max(logits))) / temperature)
    probabilities = weights / np.sum(weights)
    # All tokens up to this hold at most 1 - top_p together, so none of them is in the nucleus: they need no sorting.
    candidates = np.flatnonzero(probabilities > (1 - top_p) / len(probabilities))
    if top_p == 1:
        return candidates, probabilities[candidates]
    candidates = candidates[np.argsort(-probabilities[candidates], kind="stable")]
    ranked = probabilities[candidates]
    needed = int(np.searchsorted(np.cumsum(ranked), top_p)) + 1
    return candidates[:needed], ranked[:needed]


def _checked(logits: Row) -> Row:
    """Return ``logits`` when there is something to choose: their largest is a number (NaN would be the largest)."""
    if not np.isfinite(np.max(logits)):
        raise StageError(ErrorCode.ENGINE_FAILED, "the model's logits leave nothing to choose", retryable=True)
    return logits
