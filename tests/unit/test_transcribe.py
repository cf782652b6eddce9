"""The stage, with models that only remember what they were asked."""

import threading
from dataclasses import replace

import numpy as np
import pytest

from schemas.deadline import Deadline
from schemas.errors import DeadlineExceeded
from schemas.media import SAMPLE_RATE_HZ, AudioClip
from schemas.perception import SpeechSpan
from stages.mel import FRAMES_PER_S, Mel
from stages.repetition import usual_tokens
from stages.speech_window import MAX_WINDOW_S
from stages.transcribe import (
    MIN_WINDOW_S,
    OTHER_BEAMS,
    SLACK_S,
    AsrModel,
    HeardTranscript,
    SpeechTask,
    Transcriber,
    decoding_work,
)
from stages.whisper import Decoded, Encoded, Piece

NEVER = Deadline.never()


class FakeWhisper:
    """Says one fixed sentence about everything. The language is told by how loud the sound is."""

    mel_bins = 80

    def __init__(self, name: str, says: str) -> None:
        self.name = name
        self.says = says
        self.frames: list[int] = []
        self.asked: list[tuple[str, str, int]] = []
        self.beams: list[int] = []
        self.listened = 0

    def encode(self, mel: Mel) -> Mel:
        return mel

    def languages(self, encoded: Encoded) -> dict[str, float]:
        mel = self._mel(encoded)
        self.listened += 1
        return {"zh": 0.9, "en": 0.1} if mel.max() > 1 else {"en": 0.9, "zh": 0.1}

    def decode(
        self,
        encoded: Encoded,
        *,
        language: str,
        prompt: str,
        max_tokens: int,
        beams: int,
        repetition_penalty: float = 1.0,
    ) -> Decoded:
        self.frames.append(self._mel(encoded).shape[1])
        self.asked.append((language, prompt, max_tokens))
        self.beams.append(beams)
        return Decoded((Piece(0.0, 1.0, self.says),), mean_logprob=-0.25, no_speech=0.0)

    def _mel(self, encoded: Encoded) -> Mel:
        assert isinstance(encoded, np.ndarray)
        return encoded


class CountedClock:
    """Passes one second a look."""

    def __init__(self) -> None:
        self.now_s = 0.0

    def __call__(self) -> float:
        self.now_s += 1
        return self.now_s


@pytest.fixture
def english() -> FakeWhisper:
    return FakeWhisper("small", "Hello.")


@pytest.fixture
def multilingual() -> FakeWhisper:
    return FakeWhisper("large", "你好，廣州。")


@pytest.fixture
def transcriber(english: FakeWhisper, multilingual: FakeWhisper) -> Transcriber:
    return Transcriber(english=english, multilingual=multilingual)


QUIET, LOUD = 0.01, 0.9


def task(*stretches: tuple[float, float, float], start_s: float = 0.0, model: AsrModel = "auto") -> SpeechTask:
    """Build a minute of sound: a tone within each stretch (from, to, level). Loud stretches are Mandarin."""
    t = np.arange(60 * SAMPLE_RATE_HZ) / SAMPLE_RATE_HZ
    samples = np.zeros_like(t)
    for begin_s, end_s, level in stretches:
        within = (t >= begin_s) & (t < end_s)
        samples[within] = level * np.sin(2 * np.pi * 300 * t[within])
    spans = tuple(SpeechSpan(begin_s, end_s) for begin_s, end_s, _ in stretches)
    return SpeechTask(AudioClip(samples.astype(np.float32), start_s=start_s), spans, model)


def test_no_speech_gives_no_words(transcriber: Transcriber, english: FakeWhisper, multilingual: FakeWhisper):
    found = transcriber.run(task(), deadline=NEVER)
    assert (found.language, found.segments, found.complete) == (None, (), True)
    assert not english.frames
    assert not multilingual.listened


def test_english_goes_to_the_english_model(transcriber: Transcriber, multilingual: FakeWhisper):
    found = transcriber.run(task((1, 4, QUIET)), deadline=NEVER)
    assert (found.language, found.text, found.model) == ("en", "Hello.", "small")
    assert not multilingual.frames


def test_mandarin_comes_out_in_simplified_characters(transcriber: Transcriber, multilingual: FakeWhisper):
    found = transcriber.run(task((1, 4, LOUD)), deadline=NEVER)
    assert (found.language, found.text, found.model) == ("zh", "你好，广州。", "large")
    assert "普通话" in multilingual.asked[0][1]


def test_a_hasty_task_follows_one_reading_where_others_follow_several(
    transcriber: Transcriber, english: FakeWhisper, multilingual: FakeWhisper
):
    both = task((1, 4, QUIET), (5, 7, LOUD))
    transcriber.run(both, deadline=NEVER)
    transcriber.run(replace(both, hasty=True), deadline=NEVER)
    assert (english.beams, multilingual.beams) == ([1, 1], [OTHER_BEAMS, 1])


def test_each_stretch_keeps_its_language(transcriber: Transcriber):
    found = transcriber.run(task((1, 4, QUIET), (5, 7, LOUD)), deadline=NEVER)
    assert [(segment.language, segment.text) for segment in found.segments] == [
        ("en", "Hello."),
        ("zh", "你好，广州。"),
    ]
    assert found.language == "en"
    assert found.model == "small + large"


def test_the_small_model_alone_names_a_language_it_cannot_write(transcriber: Transcriber, multilingual: FakeWhisper):
    found = transcriber.run(task((1, 4, LOUD), model="tiny.en"), deadline=NEVER)
    assert (found.language, found.text, found.complete, found.speech_s) == ("zh", "", False, 0.0)
    assert not multilingual.frames


def test_the_large_model_takes_english_too(transcriber: Transcriber, english: FakeWhisper):
    found = transcriber.run(task((1, 4, QUIET), model="base"), deadline=NEVER)
    assert (found.language, found.model) == ("en", "large")
    assert not english.frames


def test_times_are_those_of_the_clip(transcriber: Transcriber):
    (segment,) = transcriber.run(task((2, 5, QUIET), start_s=1.5), deadline=NEVER).segments
    assert (segment.t_start_s, segment.t_end_s) == (3.5, 4.5)
    assert segment.score == pytest.approx(np.exp(-0.25))


def test_sound_before_the_first_picture_starts_at_zero(transcriber: Transcriber):
    (segment,) = transcriber.run(task((0, 3, QUIET), start_s=-0.5), deadline=NEVER).segments
    assert (segment.t_start_s, segment.t_end_s) == (0.0, 0.5)


def test_windows_are_short_and_tokens_bounded_by_time(transcriber: Transcriber, english: FakeWhisper):
    transcriber.run(task((0, 1, QUIET)), deadline=NEVER)
    transcriber.run(task((0, 10, QUIET)), deadline=NEVER)
    assert english.frames == [600, 1300]
    assert [tokens for *_, tokens in english.asked] == [usual_tokens(1), usual_tokens(10)]


def test_what_was_ready_by_the_deadline_is_returned(transcriber: Transcriber):
    speech = task((0, 14, QUIET), (15, 29, QUIET), (30, 44, QUIET))
    found = transcriber.run(speech, deadline=Deadline(6.0, CountedClock()))
    assert 0 < len(found.segments) < 3
    assert not found.complete
    assert found.speech_s == pytest.approx(14 * len(found.segments))


@pytest.mark.parametrize("at_s", [0.0, 1.5])
def test_nothing_by_the_deadline_is_said_so(transcriber: Transcriber, at_s: float):
    with pytest.raises(DeadlineExceeded):
        transcriber.run(task((0, 5, QUIET)), deadline=Deadline(at_s, CountedClock()))


def test_threads_do_not_disturb_one_another(transcriber: Transcriber):
    found: list[HeardTranscript] = []
    speech = task((1, 4, QUIET), (5, 7, LOUD))
    threads = [threading.Thread(target=lambda: found.append(transcriber.run(speech, deadline=NEVER))) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len({(result.text, result.language) for result in found}) == 1
    assert len(found) == 4


def test_one_model_may_do_everything():
    both = FakeWhisper("turbo", "Hi.")
    transcriber = Transcriber(english=both, multilingual=both)
    transcriber.warm()
    assert transcriber.model == "turbo"
    assert transcriber.run(task((1, 4, QUIET)), deadline=NEVER).text == "Hi."


def test_a_word_costs_the_smallest_window_and_silence_no_less():
    assert decoding_work(0.0) == decoding_work(0.5) == decoding_work(MIN_WINDOW_S - SLACK_S) == MIN_WINDOW_S


def test_more_speech_is_never_less_work():
    work = [decoding_work(tenth / 10) for tenth in range(1_000)]
    assert work == sorted(work)
    assert all(work_s >= tenth / 10 for tenth, work_s in enumerate(work)), "what is said is all in some window"


@pytest.mark.parametrize("windows", [1, 2, 3, 10])
def test_every_window_of_speech_costs_its_slack(windows: int):
    full_s = windows * MAX_WINDOW_S
    assert decoding_work(full_s) == pytest.approx(full_s + windows * SLACK_S)
    assert decoding_work(full_s + 1) - decoding_work(full_s) == pytest.approx(1 + SLACK_S), "another one begins"


@pytest.mark.parametrize("speech_s", [1.0, 3.0, 5.0, 10.0, 14.0])
def test_the_work_of_one_window_is_what_the_model_hears(
    transcriber: Transcriber, english: FakeWhisper, speech_s: float
):
    transcriber.run(task((0, speech_s, QUIET)), deadline=NEVER)
    (frames,) = english.frames
    assert decoding_work(speech_s) == pytest.approx(frames / FRAMES_PER_S)
