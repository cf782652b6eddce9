"""Real clips through voice detection and transcription, against the manifest's words."""

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from benchmarks.words import Errors, score_speech
from schemas.deadline import Deadline
from schemas.errors import ConfigurationError, DeadlineExceeded
from schemas.media import SAMPLE_RATE_HZ, AudioClip
from schemas.perception import SpeechSpan, Transcript
from stages.backends.whisper_ct2 import Ctranslate2Whisper
from stages.base import Compute
from stages.transcribe import AsrModel, SpeechTask, Transcriber
from stages.vad import Vad
from tests.conftest import manifest
from tests.sounds import listen
from tests.speech import write_down

pytestmark = pytest.mark.models

NEVER = Deadline.never()
JFK = "composite/talk_en_jfk.mp4"
LECTURE = "composite/lecture_zh.mp4"


class Listener:
    """Voice detection and transcription, as the pipeline runs them."""

    def __init__(self, weights: Path) -> None:
        self.vad = Vad(weights / "silero-vad" / "silero_vad_16k_sequence.onnx", Compute())
        small, large = (
            Ctranslate2Whisper(weights / name, compute=Compute(), parallel=2)
            for name in ("whisper-tiny.en", "whisper-base")
        )
        self.transcriber = Transcriber(english=small, multilingual=large)
        self.transcriber.warm()

    def hear(self, audio: AudioClip, *, model: AsrModel = "auto", deadline: Deadline = NEVER) -> Transcript:
        """Return what is said in ``audio``."""
        spans = self.vad.run(audio, deadline=NEVER)
        return write_down(self.transcriber, SpeechTask(audio, spans, model), deadline=deadline)


@pytest.fixture(scope="module")
def listener(weights: Path) -> Listener:
    return Listener(weights)


@pytest.fixture(scope="module")
def heard(listener: Listener, clips: Path) -> dict[str, Transcript]:
    """Every clip with sound, heard once."""
    return {
        entry["path"]: listener.hear(listen(clips / entry["path"])) for entry in manifest() if entry.get("has_audio")
    }


def truths() -> dict[str, str]:
    return {entry["path"]: entry["transcript"] for entry in manifest() if entry.get("transcript")}


def paths(language: str) -> list[str]:
    return [entry["path"] for entry in manifest() if entry.get("language") == language]


def test_no_words_are_invented(heard: dict[str, Transcript]):
    wordless = [entry["path"] for entry in manifest() if entry.get("has_audio") and entry.get("transcript") == ""]
    assert {path: heard[path].text for path in wordless} == dict.fromkeys(wordless, "")


def test_english_words_are_right(heard: dict[str, Transcript]):
    scores = [score_speech(truth, heard[path].text).words for path, truth in truths().items()]
    assert sum((score for score in scores if score), Errors()).rate <= 0.10


def test_mandarin_characters_are_right_and_simplified(heard: dict[str, Transcript]):
    scores = [score_speech(truth, heard[path].text).characters for path, truth in truths().items()]
    assert sum((score for score in scores if score), Errors()).rate <= 0.25


@pytest.mark.parametrize("language", ["en", "zh", "fr"])
def test_the_language_is_named(heard: dict[str, Transcript], language: str):
    if not paths(language):
        pytest.skip(f"no clip in {language} among the media here")
    assert {path: heard[path].language for path in paths(language)} == dict.fromkeys(paths(language), language)


def test_segments_ascend_within_the_clip(heard: dict[str, Transcript], clip_truth: dict[str, Any]):
    for path, transcript in heard.items():
        edges = [edge for part in transcript.segments for edge in (part.t_start_s, part.t_end_s)]
        assert edges == sorted(edges), path
        assert all(0 <= edge <= clip_truth[path]["duration"] + 0.1 for edge in edges), path


def test_a_change_of_language_is_followed(listener: Listener, clips: Path):
    english, mandarin = (listen(clips / path).samples for path in (JFK, LECTURE))
    pause = np.zeros(SAMPLE_RATE_HZ // 2, np.float32)
    found = listener.hear(AudioClip(np.concatenate([mandarin, pause, english])))
    languages = [part.language for part in found.segments]
    assert languages == sorted(languages, reverse=True)
    assert set(languages) == {"en", "zh"}
    assert found.language == "en"
    change_s = (len(mandarin) + len(pause)) / SAMPLE_RATE_HZ
    assert all((part.t_start_s >= change_s - 0.5) == (part.language == "en") for part in found.segments)


def test_the_large_model_alone_reads_english_too(listener: Listener, clips: Path):
    found = listener.hear(listen(clips / JFK), model="base")
    assert score_speech(truths()[JFK], found.text).words.rate <= 0.10
    assert found.language == "en"


def test_the_small_model_alone_does_not_invent_english(listener: Listener, clips: Path):
    found = listener.hear(listen(clips / LECTURE), model="tiny.en")
    assert (found.text, found.language) == ("", "zh")


def test_times_start_where_the_sound_does(listener: Listener, clips: Path):
    audio = listen(clips / JFK)
    later = listener.hear(AudioClip(audio.samples, start_s=2.0))
    for before, after in zip(listener.hear(audio).segments, later.segments, strict=True):
        assert after.t_start_s == pytest.approx(before.t_start_s + 2)
        assert after.t_end_s == pytest.approx(before.t_end_s + 2)


def test_a_short_word_is_not_repeated(listener: Listener, clips: Path):
    audio = listen(clips / JFK)
    words = write_down(listener.transcriber, SpeechTask(audio, (SpeechSpan(0.1, 2.4),)), deadline=NEVER).text.split()
    assert len(words) <= 6  # "And so, my fellow Americans"


def test_the_hint_does_not_change_plain_speech(listener: Listener, clips: Path):
    audio = listen(clips / JFK)
    spans = listener.vad.run(audio, deadline=NEVER)
    hinted = write_down(listener.transcriber, SpeechTask(audio, spans, language_hint="zh"), deadline=NEVER)
    assert hinted.language == "en"


def test_threads_hear_the_same(listener: Listener, clips: Path):
    audio = listen(clips / JFK)
    with ThreadPoolExecutor(3) as pool:
        texts = {future.text for future in pool.map(lambda _: listener.hear(audio), range(3))}
    assert len(texts) == 1


def test_a_passed_deadline_is_said_so(listener: Listener, clips: Path):
    with pytest.raises(DeadlineExceeded):
        listener.hear(listen(clips / JFK), deadline=Deadline.after(-1))


def test_missing_weights_name_the_remedy(tmp_path: Path):
    with pytest.raises(ConfigurationError, match="models pull"):
        Ctranslate2Whisper(tmp_path, compute=Compute())
