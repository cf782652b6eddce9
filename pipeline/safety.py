"""One verdict on safety from pictures and words. Pure."""

from collections.abc import Sequence

from schemas.result import Judgement

UNSAFE_PICTURE = 0.8
"""The authors of open_nsfw: above 0.8 'highly probable', below 0.2 'safe with good probability'; between lies doubt."""


def judge_safety(pictures: Sequence[float], words: Judgement | None, *, whole: bool) -> Judgement | None:
    """Fuse each frame's probability of being unsafe with the verdict on the words.

    The worst witness decides: one unsafe frame, or one unsafe sentence, makes a clip unsafe. The score belongs to the
    label; ``sources`` holds each witness's own probability of harm. None when nobody looked and nothing was read, and
    instead of safe when these are not the ``whole`` of the clip's witnesses: harm may be in what the others would say.
    """
    sources = dict(words.sources) if words else {}
    if pictures:
        sources["pictures"] = max(pictures)
    if not sources:
        return None
    accusers = [words.score] if words and words.label == "unsafe" else []
    accusers += [p for p in (sources.get("pictures", 0.0),) if p >= UNSAFE_PICTURE]
    if accusers:
        return Judgement(label="unsafe", score=max(accusers), sources=sources)
    return Judgement(label="safe", score=1 - max(sources.values()), sources=sources) if whole else None
