"""The sampled frames as picture files, and the boxes that are drawn over them."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from PIL import Image

from pipeline.page.scale import percent
from schemas.media import Frame, Rgb
from schemas.result import BoxFractions, Detection, FusedResult, TextSpan

MAX_SIDE_PX = 1280
"""Sharp in the large view of a laptop's screen, and about 100 KB a picture."""

JPEG_QUALITY = 84

HUES = 8
"""How many colours the style sheet tells apart; more labels than that share them."""

SAME_FRAME_S = 0.02
"""Times on the wire may be rounded; no two sampled frames of one clip lie closer than this."""


WIDE_PX, NARROW_PX = 640, 340
"""Widths for which tags are laid out: the page's column on a laptop, and a phone."""

TAG_CHAR_PX, TAG_LINE_PX = 7, 18
"""About the size of a tag's letters in the style sheet."""


@dataclass(frozen=True, slots=True)
class Box:
    """A rectangle over a picture, in percentages of it. ``hue`` is None for on-screen text.

    ``tag_x`` and ``tag_side`` keep the words inside the picture: they hang at the side that has more room.
    ``tag_room`` says on which screens they hide no other box's words: ``any``, ``wide`` or ``none``.
    """

    x: str
    y: str
    width: str
    height: str
    tag: str
    tag_x: str
    tag_side: str
    hue: int | None
    tag_room: str


@dataclass(frozen=True, slots=True)
class Picture:
    """One saved frame, the ``number``-th from 1. ``width`` and ``height`` are the file's own, in pixels."""

    number: int
    t_s: float
    file: str
    width: int
    height: int
    boxes: tuple[Box, ...]
    text_boxes: tuple[Box, ...]
    contents: str
    contrast: float

    @property
    def shape(self) -> str:
        """How the style sheet should fit it."""
        ratio = self.width / self.height
        return "wide" if ratio >= 1 else "tall" if ratio >= 0.4 else "sliver"


def save_pictures(folder: Path, frames: Sequence[Frame], *, result: FusedResult) -> tuple[Picture, ...]:
    """Write each frame as a JPEG into ``folder`` (which must exist) and return them in order of time."""
    hues = hues_of(result)
    return tuple(
        _save(folder, frame, number=number, result=result, hues=hues)
        for number, frame in enumerate(sorted(frames, key=lambda f: f.t_s), 1)
    )


def best_picture(pictures: Sequence[Picture]) -> Picture | None:
    """Return the one that shows the clip best: most boxes, then most contrast (a fade to black shows nothing)."""
    return max(pictures, key=lambda p: (len(p.boxes) + len(p.text_boxes), p.contrast), default=None)


def hues_of(result: FusedResult) -> dict[str, int]:
    """Give each object's label a colour number, in the order in which the result lists them."""
    labels = dict.fromkeys([*(o.label for o in result.objects), *(d.label for d in result.detections)])
    return {label: number % HUES for number, label in enumerate(labels)}


def _save(folder: Path, frame: Frame, *, number: int, result: FusedResult, hues: dict[str, int]) -> Picture:
    image = _fit(frame.image)
    file = f"frame-{number:03d}.jpg"
    image.save(folder / file, "JPEG", quality=JPEG_QUALITY)
    found = [d for d in result.detections if abs(d.t_s - frame.t_s) <= SAME_FRAME_S]
    lines = [t for t in result.text if t.t_start_s - SAME_FRAME_S <= frame.t_s <= t.t_end_s + SAME_FRAME_S]
    return Picture(
        number=number,
        t_s=frame.t_s,
        file=file,
        width=image.width,
        height=image.height,
        boxes=_object_boxes(found, hues=hues, shape=image.size),
        text_boxes=tuple(_box(line.box, line.text) for line in lines),
        contents=_contents(found, lines),
        contrast=float(frame.image.std()),
    )


def _fit(pixels: Rgb) -> Image.Image:
    image = Image.fromarray(pixels, "RGB")
    shrink = min(1.0, MAX_SIDE_PX / max(image.size))
    if shrink == 1.0:
        return image
    width, height = (max(1, round(side * shrink)) for side in image.size)
    return image.resize((width, height), Image.Resampling.BILINEAR)


def _object_boxes(found: Sequence[Detection], *, hues: dict[str, int], shape: tuple[int, int]) -> tuple[Box, ...]:
    tags = [f"{d.label} {d.score:.2f}{f' #{d.track_id}' if d.track_id is not None else ''}" for d in found]
    named = list(zip([d.box for d in found], tags, strict=True))
    wide, narrow = (_uncovered(named, width_px=px, height_px=px * shape[1] / shape[0]) for px in (WIDE_PX, NARROW_PX))
    rooms = ["any" if i in narrow else "wide" if i in wide else "none" for i in range(len(found))]
    return tuple(
        _box(d.box, tag, hue=hues[d.label], tag_room=room) for d, tag, room in zip(found, tags, rooms, strict=True)
    )


def _uncovered(named: Sequence[tuple[BoxFractions, str]], *, width_px: float, height_px: float) -> set[int]:
    """Positions in ``named`` whose tags don't overlap an earlier one's, on a picture of the given size."""
    kept: dict[int, tuple[float, float]] = {}
    lengths = [TAG_CHAR_PX * len(tag) + 10 for _, tag in named]
    for i, (box, _) in enumerate(named):
        left = box[0] * width_px if _hangs_left(box) else box[2] * width_px - lengths[i]
        top = box[1] * height_px
        clashes = (
            left < other_left + lengths[j] and other_left < left + lengths[i] and abs(top - other_top) < TAG_LINE_PX
            for j, (other_left, other_top) in kept.items()
        )
        if not any(clashes):
            kept[i] = (left, top)
    return set(kept)


def _hangs_left(box: BoxFractions) -> bool:
    return box[0] <= 1 - box[2]


def _box(box: BoxFractions, tag: str, *, hue: int | None = None, tag_room: str = "none") -> Box:
    x0, y0, x1, y1 = box
    return Box(
        x=percent(x0),
        y=percent(y0),
        width=percent(max(0.0, x1 - x0)),
        height=percent(max(0.0, y1 - y0)),
        tag=tag,
        tag_x=percent(x0 if _hangs_left(box) else x1),
        tag_side="start" if _hangs_left(box) else "end",
        hue=hue,
        tag_room=tag_room,
    )


def _contents(found: Sequence[Detection], lines: Sequence[TextSpan]) -> str:
    labels = [d.label for d in found]
    counts = {label: labels.count(label) for label in labels}
    counted = [f"{label} ×{count}" if count > 1 else label for label, count in counts.items()]
    return ", ".join([*counted, *(f"“{line.text}”" for line in lines)]) or "nothing found"
