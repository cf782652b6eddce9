"""What a result lacks and why, in words for people who know nothing of stages. Pure."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

from schemas.errors import WarningCode
from schemas.result import Basis, FusedResult, StageStatus, Witness

Subject = Literal["file", "pictures", "objects", "place", "unsafe", "captions", "speech", "words", "mood", "damage"]

BAD = frozenset({StageStatus.TIMED_OUT, StageStatus.FAILED})

WHY = {StageStatus.TIMED_OUT: " in time", StageStatus.FAILED: " because of a fault", StageStatus.SKIPPED: ""}

UPSTREAM: Mapping[str, tuple[str, ...]] = {
    "frames": ("probe",),
    "detect": ("probe", "frames"),
    "confirm": ("probe", "frames", "detect"),
    "scene": ("probe", "frames"),
    "unsafe": ("probe", "frames"),
    "ocr": ("probe", "frames"),
    "vad": ("audio",),
    "transcribe": ("audio", "vad"),
    "sentiment": ("probe", "frames", "ocr", "audio", "vad", "transcribe"),
    "text": ("probe", "frames", "ocr", "audio", "vad", "transcribe"),
}
"""Whose failure already says why a stage has not done its work."""


ASKED_FOR = frozenset({"detect", "scene", "unsafe", "ocr", "transcribe", "text", "sentiment"})
"""Stages that a job asks for by name; the others serve them."""


@dataclass(frozen=True, slots=True)
class Work:
    """What a stage does: to which ``subject``; what to say when it has done nothing of it, and when only a part."""

    subject: Subject
    undone: str
    partly: str


WORK: Mapping[str, Work] = {
    "probe": Work("file", "the file was not examined", "the file was not examined"),
    "frames": Work("pictures", "the pictures were not decoded", "not all pictures were decoded"),
    "detect": Work("objects", "objects were not looked for", "not every picture was searched for objects"),
    "confirm": Work(
        "objects", "doubtful objects were not looked at again", "doubtful objects were not looked at again"
    ),
    "scene": Work("place", "the place was not recognised", "not every picture was looked at for its place"),
    "unsafe": Work(
        "unsafe",
        "the pictures were not checked for unsafe content",
        "not all pictures were checked for unsafe content",
    ),
    "ocr": Work("captions", "captions were not read", "not all captions were read"),
    "audio": Work("speech", "the sound was not decoded", "the sound was not decoded"),
    "vad": Work("speech", "the sound was not searched for speech", "the sound was not searched for speech"),
    "transcribe": Work("speech", "the speech was not written down", "not all speech was written down"),
    "text": Work("words", "the words were not understood", "not all words were understood"),
    "sentiment": Work("mood", "the mood was not judged", "the mood was not judged from all words"),
}

NAMES: Mapping[Witness, str] = {
    Witness.PICTURES: "the pictures",
    Witness.CAPTIONS: "the captions",
    Witness.SPEECH: "the speech",
    Witness.TITLE: "the title",
    Witness.DESCRIPTION: "the description",
}


@dataclass(frozen=True, slots=True)
class Gap:
    """One thing that is missing, as a clause. ``wanted`` is False of what the job did not ask for."""

    subject: Subject
    words: str
    wanted: bool = True


def gaps(result: FusedResult) -> tuple[Gap, ...]:
    """Return what is missing from ``result``, each thing once, at its cause. Nothing from a clip is in the words."""
    found = (*_of_stages(result), *_of_the_file(result))
    return (*found, *_of_words(result, {gap.subject for gap in found}))


def missing(result: FusedResult) -> tuple[str, ...]:
    """Return what is missing although it was asked for, a clause each."""
    return tuple(gap.words for gap in gaps(result) if gap.wanted)


def rests_on(basis: Basis) -> str:
    """Return what a verdict rests on: ``the pictures, the title and 70 % of the speech``; empty when on nothing."""
    return listing([_how_much(witness, share) for witness, share in basis.read.items()])


def listing(words: Sequence[str]) -> str:
    """Return ``a``, ``a and b``, ``a, b and c``."""
    return " and ".join(filter(None, (", ".join(words[:-1]), *words[-1:])))


def _how_much(witness: Witness, share: float) -> str:
    return NAMES[witness] if share >= 1 else f"{max(0.01, min(share, 0.99)):.0%} of {NAMES[witness]}".replace("%", " %")


def _of_stages(result: FusedResult) -> Iterator[Gap]:
    """Yield what stages have not done, but where a stage before them, or the clip itself, says it all."""
    for name, work in WORK.items():
        status = result.stages[name].status if name in result.stages else StageStatus.OK
        if status not in WHY or any(_nothing_from(result, before) for before in UPSTREAM.get(name, ())):
            continue
        if status is StageStatus.SKIPPED:
            if name in ASKED_FOR:
                yield Gap(work.subject, f"{work.undone}, as nobody asked for it", wanted=False)
        elif name == "transcribe":
            yield Gap("speech", _unwritten(result) + WHY[status])
        elif name != "text":
            yield Gap(work.subject, (work.partly if _begun(result, name) else work.undone) + WHY[status])


def _nothing_from(result: FusedResult, name: str) -> bool:
    """Whether what comes after a stage had (nearly) nothing to work on, because of that stage."""
    if name not in result.stages or result.stages[name].status not in BAD:
        return False
    return name != "frames" or not result.coverage.frames_analyzed


def _begun(result: FusedResult, name: str) -> bool:
    """Whether something of a stage's work is in the result."""
    seen = {
        "frames": result.coverage.frames_analyzed,
        "detect": result.detections,
        "scene": result.scene,
        "unsafe": Witness.PICTURES in result.based_on.safety.read,
        "ocr": result.text or Witness.CAPTIONS in result.based_on.safety.read,
        "sentiment": result.based_on.sentiment.read,
    }
    return bool(seen.get(name))


def _unwritten(result: FusedResult) -> str:
    """Say which part of the speech was not written down."""
    coverage, segments = result.coverage, result.speech.segments if result.speech else ()
    lost_s = sum(end_s - start_s for start_s, end_s in coverage.unwritten)
    if not lost_s:
        return WORK["transcribe"].partly if segments else WORK["transcribe"].undone
    if not coverage.speech_s:
        return f"none of the {_seconds(lost_s)} of speech was written down"
    first_s, last_s = coverage.unwritten[0][0], coverage.unwritten[-1][1]
    middles_s = [(segment.t_start_s + segment.t_end_s) / 2 for segment in segments]
    if middles_s and max(middles_s) <= first_s:
        return f"the last {_seconds(lost_s)} of speech were not written down"
    if middles_s and min(middles_s) >= last_s:
        return f"the first {_seconds(lost_s)} of speech were not written down"
    where = listing([f"from {_second(start_s)} to {_seconds(end_s)}" for start_s, end_s in coverage.unwritten])
    return f"{_seconds(lost_s)} of speech ({where}) were not written down"


def _seconds(value_s: float) -> str:
    return f"{_second(value_s)} s"


def _second(value_s: float) -> str:
    """Return a number of seconds: in tenths below ten, without a decimal that says nothing."""
    return f"{value_s:.0f}" if value_s >= 9.95 else f"{value_s:.1f}".removesuffix(".0")


def _of_words(result: FusedResult, known: set[Subject]) -> Iterator[Gap]:
    """Yield whose words are there but were not understood; of words that are not there, it is said why not."""
    report = result.stages.get("text")
    based = result.based_on
    lacking = {*based.safety.missing, *based.topics.missing} - {Witness.PICTURES}
    excused: Mapping[Witness, set[Subject]] = {
        Witness.CAPTIONS: {"file", "pictures", "captions"},
        Witness.SPEECH: {"speech"},
    }
    unread = [NAMES[w] for w in Witness if w in lacking and not known & excused.get(w, set())]
    late = report is not None and report.status in BAD
    why = WHY[report.status if report is not None and late else StageStatus.TIMED_OUT]
    if unread:
        verb = "was" if len(unread) == 1 and unread[0] != NAMES[Witness.CAPTIONS] else "were"
        yield Gap("words", f"{listing(unread)} {verb} not wholly understood{why}")
    elif late and not known & {"file", "pictures", "captions", "speech"}:
        yield Gap("words", f"{WORK['text'].undone}{why}")


def _of_the_file(result: FusedResult) -> Iterator[Gap]:
    """Yield what the file itself lacks."""
    coverage, codes = result.coverage, {warning.code for warning in result.warnings}
    if WarningCode.AUDIO_UNDECODABLE in codes:
        yield Gap("speech", "the sound could not be decoded")
    if WarningCode.AUDIO_CUT in codes:
        yield Gap("speech", f"only the first {_seconds(coverage.audio_s)} of the sound were listened to")
    if coverage.fraction < 1 and result.media is not None:
        yield Gap("damage", f"the file ends early: only {coverage.fraction:.0%} of it is there".replace("%", " %"))
    elif WarningCode.TRUNCATED in codes:
        yield Gap("damage", "the file ends early")
    if coverage.packets_damaged or WarningCode.DAMAGED_PACKETS in codes:
        yield Gap("damage", "parts of the file are damaged")
