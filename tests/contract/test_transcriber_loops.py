"""Known speech, cut anywhere: nothing is said again that was said once, and a window has its price."""

from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path

import numpy as np
import pytest

from benchmarks.words import plain_characters, plain_words
from schemas.media import SAMPLE_RATE_HZ, Samples
from stages.backends.whisper_ct2 import Ctranslate2Whisper
from stages.base import Compute
from stages.mel import FRAMES_PER_S, log_mel
from stages.repetition import PENALTY, decode_unlooped, usual_tokens
from stages.whisper import Decoded, Whisper
from stages.whisper_text import said
from tests.sounds import listen

pytestmark = pytest.mark.models

STEP_S, LONGEST_S = 0.5, 6.0
SLACK_S, MIN_WINDOW_S = 3.0, 6.0

JFK = "composite/talk_en_jfk.mp4"
LECTURE = "composite/lecture_zh.mp4"
ENGLISH = [JFK, "composite/talk_en_over_music.mp4", "composite/synthetic_positive.mp4"]
MANDARIN = [LECTURE, "composite/talk_zh_aishell.mp4"]


class Ear:
    """One model that hears one language, and counts tries."""

    def __init__(self, whisper: Whisper, *, language: str, beams: int) -> None:
        self._whisper, self._language, self._beams = whisper, language, beams
        self.penalties: list[float] = []

    def hear(self, samples: Samples) -> Decoded:
        """Return what is said in a stretch of speech."""
        duration_s = len(samples) / SAMPLE_RATE_HZ
        frames = 2 * round(max(duration_s + SLACK_S, MIN_WINDOW_S) * FRAMES_PER_S / 2)
        encoded = self._whisper.encode(log_mel(samples, frames=frames, bins=self._whisper.mel_bins))
        ask = partial(self._whisper.decode, encoded, language=self._language, prompt="", beams=self._beams)

        def counted(*, max_tokens: int, repetition_penalty: float) -> Decoded:
            self.penalties.append(repetition_penalty)
            return ask(max_tokens=max_tokens, repetition_penalty=repetition_penalty)

        return decode_unlooped(counted, duration_s=duration_s)

    def units(self, samples: Samples) -> list[str]:
        """Return the words, or characters, that are believed."""
        pieces = said(self.hear(samples), duration_s=len(samples) / SAMPLE_RATE_HZ, prompt="")
        return units(" ".join(piece.text for piece in pieces), self._language)


@pytest.fixture(scope="module")
def load(weights: Path) -> Callable[[str], Ear]:
    english, multilingual = (
        Ctranslate2Whisper(weights / name, compute=Compute()) for name in ("whisper-tiny.en", "whisper-base")
    )
    ears = {"en": Ear(english, language="en", beams=1), "zh": Ear(multilingual, language="zh", beams=5)}
    return ears.__getitem__


def units(text: str, language: str) -> list[str]:
    return list(plain_characters(text)) if language == "zh" else plain_words(text).split()


def twice(heard: list[str], *, at_least: int) -> set[tuple[str, ...]]:
    """Return the phrases that are said twice in a row."""
    sizes = range(at_least, len(heard) // 2 + 1)
    return {
        tuple(heard[i : i + size])
        for size in sizes
        for i in range(len(heard) - 2 * size + 1)
        if heard[i : i + size] == heard[i + size : i + 2 * size]
    }


def cuts(samples: Samples) -> Iterator[Samples]:
    """Yield the beginnings up to every half second, and stretches of 3 s from every second."""
    step, longest = round(STEP_S * SAMPLE_RATE_HZ), round(LONGEST_S * SAMPLE_RATE_HZ)
    for end in range(3 * step, min(len(samples), longest) + 1, step):
        yield samples[:end]
    for begin in range(step, len(samples) - 6 * step, 2 * step):
        yield samples[begin : begin + 6 * step]


@pytest.mark.parametrize(
    ("path", "language"), [*((path, "en") for path in ENGLISH), *((path, "zh") for path in MANDARIN)]
)
def test_no_phrase_is_said_again(
    load: Callable[[str], Ear], clips: Path, clip_truth: dict[str, dict[str, str]], path: str, language: str
):
    at_least = 4 if language == "zh" else 2
    truth = twice(units(clip_truth[path]["transcript"], language), at_least=at_least)
    ear = load(language)
    invented = [twice(ear.units(samples), at_least=at_least) - truth for samples in cuts(listen(clips / path).samples)]
    assert invented == [set()] * len(invented)


@pytest.mark.parametrize(("path", "language"), [(JFK, "en"), (LECTURE, "zh")])
def test_a_window_has_its_price(load: Callable[[str], Ear], clips: Path, path: str, language: str):
    for samples in cuts(listen(clips / path).samples):
        duration_s = len(samples) / SAMPLE_RATE_HZ
        assert load(language).hear(samples).tokens <= 2 * usual_tokens(duration_s), duration_s


def test_plain_speech_is_read_once(load: Callable[[str], Ear], clips: Path):
    for path, language in ((JFK, "en"), (LECTURE, "zh")):
        ear = load(language)
        ear.penalties.clear()
        ear.hear(listen(clips / path).samples)
        assert ear.penalties == [1.0]


@pytest.mark.parametrize("times", [2, 3, 4])
def test_what_is_really_said_again_stays(load: Callable[[str], Ear], clips: Path, times: int):
    phrase = listen(clips / JFK).samples[round(0.2 * SAMPLE_RATE_HZ) : round(2.4 * SAMPLE_RATE_HZ)]
    pause = np.zeros(round(0.3 * SAMPLE_RATE_HZ), np.float32)
    heard = load("en").units(np.concatenate([phrase, pause] * times))
    assert 1 <= heard.count("americans") <= times


def test_a_penalty_makes_words_come_once(load: Callable[[str], Ear], clips: Path, weights: Path):
    whisper = Ctranslate2Whisper(weights / "whisper-tiny.en", compute=Compute())
    samples = listen(clips / JFK).samples
    encoded = whisper.encode(log_mel(samples, frames=1400))
    plain, strict = (
        whisper.decode(encoded, language="en", prompt="", max_tokens=80, beams=1, repetition_penalty=penalty)
        for penalty in (1.0, 3.0)
    )
    words = [plain_words("".join(piece.text for piece in decoded.pieces)).split() for decoded in (plain, strict)]
    assert [len(said_) > len(set(said_)) for said_ in words] == [True, False]
    assert PENALTY > 1
