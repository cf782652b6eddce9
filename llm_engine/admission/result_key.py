"""Which questions are the same: equal keys get equal answers from a deterministic engine."""

import hashlib
import json
from collections import OrderedDict
from collections.abc import Sequence

from llm_engine.base import LabelSet, LLMRequest, Prompt, Sampling

MAX_LABEL_SETS = 16
"""Whose digests are kept: they are long, and few."""


def has_one_answer(sampling: Sampling) -> bool:
    """Whether equal prompts get equal texts: greedy, or with a seed."""
    return sampling.temperature == 0 or sampling.seed is not None


class ResultKeys:
    """Makes keys of all that an answer depends on.

    ``versions``: of what the request does not show (the prompt book, the schema of results); a change of any of them
    makes every earlier answer another question's. The model goes into the key with each request.
    """

    def __init__(self, *versions: str) -> None:
        self._versions = versions
        self._label_sets: OrderedDict[int, tuple[LabelSet, str]] = OrderedDict()

    def of_text(self, request: LLMRequest, *, model: str) -> str:
        """Return the key of a text to generate. The order of a schema's fields counts: it is the order of the text."""
        schema = None if request.schema is None else json.dumps(request.schema, default=repr)
        return self._digest("text", model, repr(request.prompt), repr(request.sampling), schema)

    def of_score(self, prompt: Prompt, labels: LabelSet, *, model: str) -> str:
        """Return the key of a decision."""
        return self._digest("score", model, repr(prompt), self._labels(labels))

    def _labels(self, labels: LabelSet) -> str:
        """Return the digest of ``labels``, remembered by identity: hashing 30 KB of phrases costs more than scoring."""
        known = self._label_sets.get(id(labels))
        if known is not None:
            return known[1]
        digest = self._digest(repr(labels))
        self._label_sets[id(labels)] = (labels, digest)  # holds on to the object, so that its id stays its own
        if len(self._label_sets) > MAX_LABEL_SETS:
            self._label_sets.popitem(last=False)
        return digest

    def _digest(self, *parts: str | None) -> str:
        content: Sequence[str | None] = (*self._versions, *parts)
        return hashlib.sha256(repr(content).encode("utf-8", "surrogatepass")).hexdigest()
