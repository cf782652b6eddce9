"""The lanes of a clip's time line: shots, objects, on-screen text, speech."""

from collections.abc import Iterable
from dataclasses import dataclass, replace

from pipeline.page.scale import Scale, percent
from pipeline.page.wording import guess_lang, span
from schemas.result import FusedResult

TITLES = {"shots": "Shots", "objects": "Objects", "text": "On-screen text", "speech": "Speech"}

MAX_ROWS = 10
"""A lane that grows taller than this hides the lanes below it; the lists beside it name everything."""

MIN_MARK = 0.012
"""Shortest drawn mark as a fraction of the clip: 4 px of a phone's screen, enough to see."""

LETTER = 0.022
"""Width of a letter as a fraction of a phone's lane (7 of 320 px)."""


@dataclass(frozen=True, slots=True)
class Mark:
    """One thing on a lane. ``x``, ``width`` and ``end`` are percentages, as are ``instants``, moments inside it.

    ``words`` says where the label is drawn: ``inside`` (cut off at the end), or ``after`` or ``before`` a mark that is
    too short for it, or ``nowhere``.
    """

    t_start_s: float
    t_end_s: float
    label: str
    target: str
    x: str
    width: str
    end: str
    lang: str = ""
    words: str = "inside"
    hue: int | None = None
    instants: tuple[str, ...] = ()

    @property
    def spoken(self) -> str:
        """What the mark is called without seeing it."""
        return f"{self.label}, {span(self.t_start_s, self.t_end_s)}"


@dataclass(frozen=True, slots=True)
class Lane:
    """Marks of one kind; those that would overlap lie in different rows. ``left_out`` marks found no room."""

    kind: str
    title: str
    rows: tuple[tuple[Mark, ...], ...]
    left_out: int = 0


@dataclass(frozen=True, slots=True)
class Timeline:
    """All lanes over one scale in seconds."""

    scale: Scale
    lanes: tuple[Lane, ...]


def build_timeline(result: FusedResult, *, hues: dict[str, int]) -> Timeline:
    """Lay out everything in ``result`` that has a time. ``hues`` gives each object's label its colour number."""
    scale = Scale(clip_length_s(result))
    lanes = (
        pack("shots", _shots(result, scale), scale=scale),
        pack("objects", _objects(result, scale, hues=hues), scale=scale, share_rows=False),
        pack("text", _texts(result, scale), scale=scale),
        pack("speech", _speech(result, scale), scale=scale),
    )
    return Timeline(scale, tuple(lane for lane in lanes if lane.rows))


def clip_length_s(result: FusedResult) -> float:
    """Seconds that the time line spans: the clip's own length, and never less than what lies on it."""
    ends = [result.media.duration_s if result.media else 0.0, *result.coverage.frame_times_s]
    ends += [shot.t_end_s for shot in result.shots]
    ends += [found.t_end_s for found in result.objects] + [d.t_s for d in result.detections]
    ends += [line.t_end_s for line in result.text]
    ends += [said.t_end_s for said in (result.speech.segments if result.speech else ())]
    return max(ends) or 1.0


def pack(kind: str, marks: Iterable[Mark], *, scale: Scale, share_rows: bool = True) -> Lane:
    """Put each mark into the first row where it overlaps nothing (or each into its own), up to ``MAX_ROWS``."""
    rows: list[list[Mark]] = []
    left_out = 0
    room_s = MIN_MARK * scale.end
    for mark in marks:
        free = next((row for row in rows if share_rows and _clear_of(row[-1], mark, room_s=room_s)), None)
        if free is not None:
            free.append(mark)
        elif len(rows) < MAX_ROWS:
            rows.append([mark])
        else:
            left_out += 1
    return Lane(kind, TITLES[kind], tuple(tuple(row) for row in rows), left_out)


def _clear_of(earlier: Mark, later: Mark, *, room_s: float) -> bool:
    return later.t_start_s >= max(earlier.t_end_s, earlier.t_start_s + room_s) - 1e-6


def _mark(scale: Scale, start_s: float, end_s: float, *, label: str, target: str) -> Mark:
    start = min(scale.fraction(start_s), 1 - MIN_MARK)
    length = max(MIN_MARK, scale.fraction(end_s) - scale.fraction(start_s))
    return Mark(start_s, end_s, label, target, percent(start), percent(length), percent(start + length))


def _fits(mark: Mark, scale: Scale) -> bool:
    return scale.fraction(mark.t_end_s) - scale.fraction(mark.t_start_s) >= LETTER * (len(mark.label) + 2)


def _shots(result: FusedResult, scale: Scale) -> Iterable[Mark]:
    for number, shot in enumerate(sorted(result.shots, key=lambda s: s.t_start_s), 1):
        mark = _mark(scale, shot.t_start_s, shot.t_end_s, label=f"Shot {number}", target="")
        yield mark if _fits(mark, scale) else replace(mark, words="nowhere")


def _objects(result: FusedResult, scale: Scale, *, hues: dict[str, int]) -> Iterable[Mark]:
    for number, found in enumerate(result.objects, 1):
        label = f"{found.label} ×{found.max_count}" if found.max_count > 1 else found.label
        mark = _mark(scale, found.t_start_s, found.t_end_s, label=label, target=f"object-{number}")
        seen = sorted({d.t_s for d in result.detections if d.label == found.label})
        words = "inside" if _fits(mark, scale) else "after" if scale.fraction(found.t_end_s) < 0.6 else "before"
        yield replace(mark, hue=hues[found.label], words=words, instants=tuple(scale.at(t) for t in seen))


def _texts(result: FusedResult, scale: Scale) -> Iterable[Mark]:
    numbered = sorted(enumerate(result.text, 1), key=lambda item: item[1].t_start_s)
    for number, line in numbered:
        mark = _mark(scale, line.t_start_s, line.t_end_s, label=line.text, target=f"text-{number}")
        yield replace(mark, lang=guess_lang(line.text))


def _speech(result: FusedResult, scale: Scale) -> Iterable[Mark]:
    for number, said in enumerate(result.speech.segments if result.speech else (), 1):
        mark = _mark(scale, said.t_start_s, said.t_end_s, label=said.text, target=f"speech-{number}")
        yield replace(mark, lang=said.language or guess_lang(said.text))
