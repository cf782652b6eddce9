"""What the stages perceive, in process. The parts are those that go on the wire."""

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from schemas.result import Detection, Label, SpeechSegment, TextSpan


@dataclass(frozen=True, slots=True)
class FrameScene:
    """One frame's classes. ``embedding`` has shape (1280,), float32, unit length.

    ``places`` are kinds of place and ``things`` are classes of the ImageNet vocabulary, both best first.
    """

    t_s: float
    places: tuple[Label, ...]
    things: tuple[Label, ...]
    embedding: npt.NDArray[np.float32]


@dataclass(frozen=True, slots=True)
class FrameText:
    """The text lines read in one frame, top to bottom; each line's times are the frame's."""

    t_s: float
    lines: tuple[TextSpan, ...]


@dataclass(frozen=True, slots=True)
class FrameDetections:
    """The objects found in one frame, best first."""

    t_s: float
    items: tuple[Detection, ...]


@dataclass(frozen=True, slots=True)
class SpeechSpan:
    """A stretch that holds a voice, in seconds of the audio clip."""

    start_s: float
    end_s: float


@dataclass(frozen=True, slots=True)
class Transcript:
    """What was said, in order. ``language``: ISO 639-1 of most of it, None when nothing was said."""

    language: str | None
    segments: tuple[SpeechSegment, ...]
    model: str

    @property
    def text(self) -> str:
        """All segments in one line."""
        return " ".join(s.text for s in self.segments if s.text)


@dataclass(frozen=True, slots=True)
class Polarity:
    """Sentiment of a text in [-1, 1] (negative to positive), and which method said so."""

    value: float
    method: str
