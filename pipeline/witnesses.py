"""Who tells something about a clip, and how much of it each verdict has heard. Pure.

Witnesses are the pictures, the captions, the speech, the title and the description. One that the clip does not have
(its stage ended ``absent``) and one that the job did not ask for is none: nothing is missing then by accident, and the
verdict is on what was asked for. What is not known to be absent counts as there: sound that was not decoded in time may
hold speech. A language model that refines a verdict, if there is time, is no witness: it reads the same texts.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from llm_engine import prose
from llm_engine.understanding import Origin, TextInsights, Told
from pipeline import findings
from pipeline.evidence import Evidence
from pipeline.heard import heard
from schemas.errors import WarningCode
from schemas.result import BasedOn, Basis, StageStatus, Witness
from stages.sentiment import Feeling
from stages.transcribe import joined

ALMOST = 0.99
"""Most that is said to be read of a witness that was not wholly read, however the figures round."""

ORIGINS: Mapping[Witness, Origin] = {
    Witness.CAPTIONS: Origin.SCREEN,
    Witness.SPEECH: Origin.SPEECH,
    Witness.TITLE: Origin.TITLE,
    Witness.DESCRIPTION: Origin.DESCRIPTION,
}
"""Those that speak in words."""

LISTENING = ("audio", "vad", "transcribe")

UNHEARD = frozenset({WarningCode.AUDIO_UNDECODABLE, WarningCode.AUDIO_CUT})
"""After these there may be speech in sound that nobody has heard."""

Shares = Mapping[Witness, float]
"""How much of each witness that the clip has was perceived, in [0, 1]."""


@dataclass(frozen=True, slots=True)
class Text:
    """All words that were perceived of one witness, and the ``share`` of it that they are."""

    words: str
    share: float


def based_on(evidence: Evidence) -> BasedOn:
    """Return what each verdict of a clip rests on."""
    texts = _texts(evidence)
    insights = findings.last(evidence.parts("text"), TextInsights())
    seen = _sight(evidence, insights)
    # Pictures speak up in a summary only where no words do.
    silent = insights.summary_by in (None, "pictures")
    return BasedOn(
        safety=_basis(_told(evidence, "safety", texts=texts) | _looks(evidence, ("unsafe",))),
        sentiment=_basis(_felt(evidence, texts)),
        topics=_basis(_told(evidence, "topics", texts=texts) | seen),
        summary=_basis(_told(evidence, "summary", texts=texts) | (seen if silent else {})),
    )


def _basis(shares: Shares) -> Basis:
    ordered = [(witness, shares[witness]) for witness in Witness if witness in shares]
    return Basis(
        read={witness: min(round(share, 3), 1.0 if share == 1 else ALMOST) for witness, share in ordered if share > 0},
        missing=tuple(witness for witness, share in ordered if share < 1),
    )


def _texts(evidence: Evidence) -> dict[Witness, Text]:
    """Return the texts that the clip has."""
    texts = {
        Witness.TITLE: Text(evidence.job.title, 1.0),
        Witness.DESCRIPTION: Text(evidence.job.description, 1.0),
    }
    texts = {witness: text for witness, text in texts.items() if text.words}
    for witness, share in _looks(evidence, ("ocr",), Witness.CAPTIONS).items():
        spans = findings.captions(evidence.parts("ocr"), evidence.probed)
        texts[witness] = Text("\n".join(span.text for span in spans), share)
    heard_share = _speech_share(evidence)
    if heard_share is not None:
        parts = evidence.parts("transcribe")
        texts[Witness.SPEECH] = Text(joined(parts).text if parts else "", heard_share)
    return texts


def _told(evidence: Evidence, told: Told, *, texts: Mapping[Witness, Text]) -> dict[Witness, float]:
    """Return how much of each text what is ``told`` from words rests on."""
    if not evidence.wants("text"):
        return {}
    read = findings.last(evidence.parts("text"), TextInsights()).read.get(told, {})
    used = {witness: text for witness, text in texts.items() if told != "summary" or witness is not Witness.DESCRIPTION}
    return {
        w: _digested(text, read.get(ORIGINS[w], 0), measure=lambda t: len(prose.plain(t))) for w, text in used.items()
    }


def _felt(evidence: Evidence, texts: Mapping[Witness, Text]) -> dict[Witness, float]:
    """Return how much of each text the mood rests on.

    Titles and captions are often too short to tell their language; then they have no mood and are no witnesses of it.
    Speech whose mood cannot be read is missing.
    """
    if not evidence.wants("sentiment"):
        return {}
    feelings: dict[str, Feeling] = {feeling.origin: feeling for feeling in evidence.parts("sentiment")}
    shares: dict[Witness, float] = {}
    for witness, text in texts.items():
        feeling = feelings.get(ORIGINS[witness])
        unreadable = feeling is not None and feeling.polarity is None and any(map(str.isalpha, text.words))
        if not unreadable:
            shares[witness] = _digested(text, feeling.chars if feeling else 0, measure=len)
        elif witness is Witness.SPEECH or text.share < 1:
            shares[witness] = 0.0
    return shares


def _digested(text: Text, chars: int, *, measure: Callable[[str], int]) -> float:
    """Return how much of a witness a verdict has read that knows ``chars`` characters of its words."""
    length = measure(text.words)
    return text.share * (min(1.0, chars / length) if length else 1.0)


def _sight(evidence: Evidence, insights: TextInsights) -> dict[Witness, float]:
    """Return how much of what the pictures show (things and places) was taken in beside the words."""
    if not evidence.wants("text"):
        return {}
    looks = findings.confirmed(evidence.parts("detect"), evidence.parts("confirm"))
    shown = findings.sight(evidence.parts("scene"), looks).words
    taken_in = not shown or Origin.SIGHT in insights.read.get("topics", {})
    return {witness: share * taken_in for witness, share in _looks(evidence, ("detect", "scene")).items()}


def _looks(evidence: Evidence, names: tuple[str, ...], witness: Witness = Witness.PICTURES) -> dict[Witness, float]:
    """Return how much of what the plan asked for the stages ``names`` have looked at, together."""
    asked = [n for n in names if evidence.wants(n) and evidence.status(n) is not StageStatus.ABSENT]
    shares = [_look_share(evidence, name) for name in asked]
    return {witness: sum(shares) / len(shares)} if shares else {}


def _look_share(evidence: Evidence, name: str) -> float:
    looked = len(evidence.parts(name))
    if looked and evidence.status(name) is evidence.status("frames") is StageStatus.OK:
        return 1.0  # looks that were left out to be in time are not in the plan any more
    planned = evidence.chosen.plan.shares[name] if evidence.chosen else 0
    return looked / max(planned, looked + 1)


def _speech_share(evidence: Evidence) -> float | None:
    """Return how much of the clip's speech was written down; None when nobody speaks, or nobody asked."""
    silent = evidence.probed is not None and not evidence.probed.media.has_audio
    if silent or not evidence.wants("transcribe"):
        return None
    ended = {evidence.status(name) for name in LISTENING}
    whole = ended <= {StageStatus.OK, StageStatus.ABSENT}
    cut = any(warning.code in UNHEARD for warning in evidence.warnings)
    if whole and not cut:
        return None if evidence.status("transcribe") is StageStatus.ABSENT else 1.0
    if whole and evidence.status("transcribe") is StageStatus.ABSENT:
        written = 1.0  # of none
    else:
        voice = findings.last(evidence.parts("vad"), ())
        written = heard(voice, evidence.parts("transcribe")).share
    return min(ALMOST, written * _decoded_share(evidence))


def _decoded_share(evidence: Evidence) -> float:
    decoded_s: float = sum(clip.duration_s for clip in evidence.parts("audio"))
    whole_s = evidence.probed.audio_s if evidence.probed else 0.0
    if not any(warning.code in UNHEARD for warning in evidence.warnings):
        return 1.0
    return min(1.0, decoded_s / whole_s) if whole_s else 0.0
