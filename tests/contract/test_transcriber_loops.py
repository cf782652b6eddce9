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
from stages.repetition import decode_unlooped, most_tokens, usual_tokens
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

PROMPTS = {"en": "", "zh": "以下是普通话的句子。"}

Heard = dict[str, list[tuple[float, Decoded]]]
"""Seconds and reading of every cut, by clip."""


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
        prompt = PROMPTS[self._language]
        ask = partial(self._whisper.decode, encoded, language=self._language, prompt=prompt, beams=self._beams)

        def counted(*, max_tokens: int, repetition_penalty: float) -> Decoded:
            self.penalties.append(repetition_penalty)
            return ask(max_tokens=max_tokens, repetition_penalty=repetition_penalty)

        return decode_unlooped(counted, duration_s=duration_s)


@pytest.fixture(scope="module")
def load(weights: Path) -> Callable[[str], Ear]:
    english, multilingual = (
        Ctranslate2Whisper(weights / name, compute=Compute()) for name in ("whisper-tiny.en", "whisper-base")
    )
    ears = {"en": Ear(english, language="en", beams=1), "zh": Ear(multilingual, language="zh", beams=5)}
    return ears.__getitem__


@pytest.fixture(scope="module")
def heard(load: Callable[[str], Ear], clips: Path) -> Heard:
    """Every cut, heard once."""
    return {
        path: [
            (len(samples) / SAMPLE_RATE_HZ, load("zh" if path in MANDARIN else "en").hear(samples))
            for samples in cuts(listen(clips / path).samples)
        ]
        for path in (*ENGLISH, *MANDARIN)
    }


def believed(duration_s: float, decoded: Decoded, language: str) -> list[str]:
    """Return the words, or characters, that count as said."""
    pieces = said(decoded, duration_s=duration_s, prompt=PROMPTS[language])
    return units(" ".join(piece.text for piece in pieces), language)


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


@pytest.mark.parametrize("path", [*ENGLISH, *MANDARIN])
def test_no_phrase_is_said_again(heard: Heard, clip_truth: dict[str, dict[str, str]], path: str):
    language = "zh" if path in MANDARIN else "en"
    at_least = 4 if language == "zh" else 2
    truth = twice(units(clip_truth[path]["transcript"], language), at_least=at_least)
    invented = [twice(believed(*cut, language), at_least=at_least) - truth for cut in heard[path]]
    assert invented == [set()] * len(invented)


def price(duration_s: float) -> int:
    """Return the most tokens that both tries may take: a circle twice its usual length, a fast speaker the most."""
    return usual_tokens(duration_s) + most_tokens(duration_s)


def test_a_window_has_its_price(heard: Heard):
    dear = [cut for found in heard.values() for cut in found if cut[1].tokens > price(cut[0])]
    assert dear == []


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
    samples = np.concatenate([phrase, pause] * times)
    words = believed(len(samples) / SAMPLE_RATE_HZ, load("en").hear(samples), "en")
    assert 1 <= words.count("americans") <= times
