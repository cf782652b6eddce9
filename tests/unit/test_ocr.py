"""Reading a frame: which lines, in which order, and what is believed of them."""

from dataclasses import dataclass, field

import numpy as np
import pytest

from schemas.deadline import Deadline
from schemas.errors import DeadlineExceeded
from schemas.media import Frame, Rgb
from schemas.perception import FrameText
from stages.backends.rapid_ocr import FoundLine, ReadLine
from stages.ocr import TextReader, cleaned, is_text

FRAME = Frame(0, 3.0, np.zeros((100, 200, 3), np.uint8), 2000, 1000)


def line(top: float, height: float, *, left: float = 0, width: float = 100, score: float = 0.9) -> FoundLine:
    corners = [(left, top), (left + width, top), (left + width, top + height), (left, top + height)]
    return FoundLine(np.array(corners, np.float32), score)


@dataclass
class Engine:
    """Finds ``lines``; reads each by its top edge from ``readings``."""

    lines: list[FoundLine]
    readings: dict[float, ReadLine]
    name: str = "fake 1"
    read_tops: list[float] = field(default_factory=list)

    def find(self, _image: Rgb, *, max_side_px: int) -> list[FoundLine]:
        return self.lines if max_side_px else []

    def read(self, _image: Rgb, line: FoundLine) -> ReadLine:
        top = float(line.corners[:, 1].min())
        self.read_tops.append(top)
        return self.readings.get(top, ReadLine("", 0.0))


def read(engine: Engine, **options: int) -> FrameText:
    return TextReader(engine, **options).run(FRAME, deadline=Deadline.never())  # type: ignore[arg-type]


def test_lines_come_top_to_bottom_then_left_to_right_with_boxes_as_fractions() -> None:
    lines = [line(50, 20), line(10, 10, left=100), line(10, 20, left=20)]
    readings = {50.0: ReadLine("below", 0.9), 10.0: ReadLine("above", 0.95)}
    text = read(Engine(lines, readings))
    assert [(span.text, span.box[0]) for span in text.lines] == [("above", 0.1), ("above", 0.5), ("below", 0.0)]
    assert text.lines[0].box == pytest.approx((0.1, 0.1, 0.6, 0.3))
    assert text.t_s == text.lines[0].t_start_s == text.lines[0].t_end_s == 3.0


def test_the_tallest_lines_are_read_when_there_are_too_many() -> None:
    engine = Engine(
        [line(0, 5), line(20, 30), line(60, 10)], {20.0: ReadLine("title", 0.9), 60.0: ReadLine("small", 0.9)}
    )
    assert [span.text for span in read(engine, max_lines=2).lines] == ["title", "small"]
    assert engine.read_tops == [20.0, 60.0]


def test_unsure_readings_are_no_text() -> None:
    assert read(Engine([line(0, 10, score=0.6)], {0.0: ReadLine("bark", 0.7)})).lines == ()


def test_an_unreadable_box_that_is_clearly_text_is_read_as_two_lines() -> None:
    readings = {0.0: ReadLine("Big Buck", 0.95), 20.0: ReadLine("BUNNY", 0.95)}
    whole = line(0, 40)

    class TwoLines(Engine):
        def read(self, _image: Rgb, line: FoundLine) -> ReadLine:
            tall = float(np.ptp(line.corners[:, 1])) > 30
            return ReadLine("BEUNKY", 0.6) if tall else super().read(_image, line)

    assert [span.text for span in read(TwoLines([whole], readings)).lines] == ["Big Buck", "BUNNY"]
    assert read(TwoLines([whole], {0.0: readings[0.0]})).lines == ()
    assert read(TwoLines([whole._replace(score=0.6)], readings)).lines == ()


def test_the_deadline_is_checked_between_the_lines() -> None:
    now = iter([0.0, 0.0, 9.0])
    engine = Engine([line(0, 10), line(20, 10)], {0.0: ReadLine("one", 0.9)})
    with pytest.raises(DeadlineExceeded):
        TextReader(engine).run(FRAME, deadline=Deadline(5.0, clock=lambda: next(now)))  # type: ignore[arg-type]
    assert engine.read_tops == [0.0]


def test_a_frame_without_lines_has_no_text() -> None:
    assert read(Engine([], {})) == FrameText(3.0, ())


def test_text_is_put_on_one_line_without_control_characters() -> None:
    assert cleaned(" a\tb\r\n\x00c\u202e ") == "a b c"
    assert len(cleaned("x" * 1000)) == 300


@pytest.mark.parametrize(
    ("text", "score", "believed"),
    [
        ("Hello", 0.8, True),
        ("Hello", 0.79, False),
        ("5", 0.9, True),
        ("5", 0.89, False),
        ("课", 0.95, True),
        ("...", 1.0, False),
        ("", 1.0, False),
    ],
)
def test_what_is_believed_to_be_text(text: str, score: float, *, believed: bool) -> None:
    assert is_text(text, score) is believed
