"""OCR with the real models, on captions of the clips and on pictures drawn here."""

import logging
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import cv2
import numpy as np
import pytest

from schemas.deadline import Deadline
from schemas.media import Frame, Rgb
from stages.backends.rapid_ocr import RapidOcr
from stages.base import Compute
from stages.ocr import TextReader
from stages.text_merge import merge_text
from tests.contract.vision_frames import sampled

NEVER = Deadline.never()


@pytest.fixture(scope="module")
def reader() -> TextReader:
    return TextReader(RapidOcr.installed(Compute()))


def card(*lines: str, height: int = 240, width: int = 640) -> Rgb:
    image = np.full((height, width, 3), 30, np.uint8)
    for number, text in enumerate(lines):
        cv2.putText(image, text, (20, 60 + 60 * number), cv2.FONT_HERSHEY_SIMPLEX, 1.2, (240, 240, 240), 2, cv2.LINE_AA)
    return image


def frame(image: Rgb) -> Frame:
    return Frame(0, 0.0, image, image.shape[1], image.shape[0])


def test_a_chinese_caption_is_read_and_lasts_the_whole_clip(
    clips: Path, clip_truth: dict[str, Any], reader: TextReader
) -> None:
    clip = "composite/lecture_zh.mp4"
    (listed,) = clip_truth[clip]["text"]
    frames = [reader.run(frame, deadline=NEVER) for frame in sampled(clips / clip, 2)]
    (caption,) = merge_text(frames, duration_s=clip_truth[clip]["duration"])
    assert caption.text.replace(" ", "") == listed["text"].replace(" ", "")
    assert (caption.t_start_s, caption.t_end_s) == (0.0, clip_truth[clip]["duration"])


@pytest.mark.parametrize("clip", ["composite/talk_en_jfk.mp4", "real/store_aisle.mp4"])
def test_clips_without_writing_have_no_text(
    clip: str, clips: Path, clip_truth: dict[str, Any], reader: TextReader
) -> None:
    assert clip_truth[clip]["text"] == []
    assert all(reader.run(frame, deadline=NEVER).lines == () for frame in sampled(clips / clip, 3))


def test_lines_are_read_in_order_with_digits_and_punctuation(reader: TextReader) -> None:
    text = reader.run(frame(card("Chapter 12: the end", "www.example.org")), deadline=NEVER)
    assert [line.text for line in text.lines] == ["Chapter 12: the end", "www.example.org"]
    upper, lower = (line.box for line in text.lines)
    assert 0 <= upper[0] < upper[2] <= 1
    assert upper[3] <= lower[1] + 0.05


def test_a_single_digit_is_read(reader: TextReader) -> None:
    image = np.full((288, 352, 3), 255, np.uint8)
    cv2.putText(image, "7", (120, 220), cv2.FONT_HERSHEY_SIMPLEX, 6, (0, 0, 0), 18, cv2.LINE_AA)
    assert [line.text for line in reader.run(frame(image), deadline=NEVER).lines] == ["7"]


@pytest.mark.parametrize("size", [(1, 1), (2, 2), (37, 53), (360, 202), (90, 1600)])
def test_pictures_of_any_shape_are_looked_at(reader: TextReader, size: tuple[int, int]) -> None:
    noise = np.random.default_rng(0).integers(0, 255, (*size, 3), np.uint8)
    for line in reader.run(frame(noise), deadline=NEVER).lines:
        assert all(0 <= edge <= 1 for edge in line.box)


def test_threads_that_share_a_reader_read_what_one_alone_reads(reader: TextReader) -> None:
    frames = [frame(card(f"Line number {i}", height=100 + 40 * i, width=480 + 60 * i)) for i in range(4)]
    alone = [reader.run(f, deadline=NEVER) for f in frames]
    with ThreadPoolExecutor(4) as pool:
        assert list(pool.map(lambda f: reader.run(f, deadline=NEVER), frames * 3)) == alone * 3


def test_reading_is_silent(capfd: pytest.CaptureFixture[str], caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.DEBUG):
        TextReader(RapidOcr.installed(Compute())).run(frame(card("Quiet please")), deadline=NEVER)
    assert capfd.readouterr() == ("", "")
    assert not caplog.records
