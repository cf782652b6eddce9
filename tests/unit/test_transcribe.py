"""The stage, with models that only remember what they were asked."""

import threading
from dataclasses import replace

import numpy as np
import pytest

from schemas.deadline import Deadline
from schemas.errors import DeadlineExceeded
from schemas.media import SAMPLE_RATE_HZ, AudioClip
from schemas.perception import SpeechSpan
from stages.mel import Mel
from stages.speech_window import Window
from stages.transcribe import (
    OTHER_BEAMS,
    AsrModel,
    HeardTranscript,
    PieceTask,
    SpeechTask,
    Transcriber,
    cost_key,
)
from stages.whisper import Decoded, Piece

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
        self.listened = self.encoded = 0
        self.mean_logprob = -0.25

    def encode(self, mel: Mel) -> Mel:
        self.encoded += 1
        return mel

    def languages(self, encoded: Mel) -> dict[str, float]:
        self.listened += 1
        return {"zh": 0.9, "en": 0.1} if encoded.max() > 1 else {"en": 0.9, "zh": 0.1}

    def decode(
        self, encoded: Mel, *, language: str, prompt: str, beams: int, max_tokens: int, repetition_penalty: float
    ) -> Decoded:
        self.frames.append(encoded.shape[1])
        self.asked.append((language, prompt, max_tokens))
        self.beams.append(beams)
        return Decoded((Piece(0.0, 1.0, self.says),), mean_logprob=self.mean_logprob, no_speech=0.0)


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


def pieces_of(transcriber: Transcriber, speech: SpeechTask) -> list[PieceTask]:
    windows = transcriber.windows(speech, deadline=NEVER)
    return [PieceTask(speech.audio, window, speech.model) for window in windows]


def heard(transcriber: Transcriber, speech: SpeechTask) -> list[HeardTranscript]:
    return [transcriber.run(piece, deadline=NEVER) for piece in pieces_of(transcriber, speech)]


def one_piece(*stretch: float, language: str, model: AsrModel = "auto") -> PieceTask:
    """Return a stretch as a piece whose language was guessed."""
    speech = task(stretch, model=model)
    return PieceTask(speech.audio, Window(speech.spans, language), model, check_language=True)


def test_english_goes_to_the_english_model(transcriber: Transcriber, multilingual: FakeWhisper):
    (found,) = heard(transcriber, task((1, 4, QUIET)))
    assert (found.language, found.text, found.model, found.complete) == ("en", "Hello.", "small", True)
    assert not multilingual.frames


def test_mandarin_comes_out_in_simplified_characters(transcriber: Transcriber, multilingual: FakeWhisper):
    (found,) = heard(transcriber, task((1, 4, LOUD)))
    assert (found.language, found.text, found.model) == ("zh", "你好，广州。", "large")
    assert "普通话" in multilingual.asked[0][1]


def test_a_hasty_piece_follows_one_reading_where_others_follow_several(
    transcriber: Transcriber, english: FakeWhisper, multilingual: FakeWhisper
):
    both = pieces_of(transcriber, task((1, 4, QUIET), (5, 7, LOUD)))
    for piece in (*both, *(replace(piece, hasty=True) for piece in both)):
        transcriber.run(piece, deadline=NEVER)
    assert (english.beams, multilingual.beams) == ([1, 1], [OTHER_BEAMS, 1])


def test_each_stretch_keeps_its_language_and_its_place(transcriber: Transcriber):
    found = heard(transcriber, task((1, 4, QUIET), (5, 7, LOUD)))
    assert [(part.language, part.text, part.span, part.speech_s) for part in found] == [
        ("en", "Hello.", SpeechSpan(1, 4), 3),
        ("zh", "你好，广州。", SpeechSpan(5, 7), 2),
    ]


def test_the_small_model_alone_names_a_language_it_cannot_write(transcriber: Transcriber, multilingual: FakeWhisper):
    (found,) = heard(transcriber, task((1, 4, LOUD), model="tiny.en"))
    assert (found.language, found.text, found.complete, found.speech_s) == ("zh", "", False, 0.0)
    assert not multilingual.frames


def test_the_large_model_takes_english_too(transcriber: Transcriber, english: FakeWhisper):
    (found,) = heard(transcriber, task((1, 4, QUIET), model="base"))
    assert (found.language, found.model) == ("en", "large")
    assert not english.frames


def test_one_look_at_the_first_long_stretch_tells_the_language(transcriber: Transcriber, multilingual: FakeWhisper):
    assert transcriber.language(task((1, 2, QUIET), (3, 6, LOUD), (7, 20, QUIET)), deadline=NEVER) == "zh"
    assert multilingual.listened == 1


def test_a_hint_tips_the_scales_only_where_the_sound_leaves_doubt(transcriber: Transcriber, multilingual: FakeWhisper):
    loud = task((1, 4, LOUD))
    assert transcriber.language(replace(loud, language_hint="en"), deadline=NEVER) == "zh"
    multilingual.languages = lambda encoded: {"zh": 0.5, "en": 0.4}
    assert transcriber.language(replace(loud, language_hint="en"), deadline=NEVER) == "en"


def test_a_piece_finds_its_own_language_on_the_encoder_pass_that_is_decoded(
    transcriber: Transcriber, multilingual: FakeWhisper, english: FakeWhisper
):
    found = transcriber.run(one_piece(1, 4, QUIET, language="zh"), deadline=NEVER)
    assert (found.language, multilingual.encoded, multilingual.listened) == ("en", 1, 1)
    assert [language for language, *_ in multilingual.asked] == ["en"]
    assert not english.encoded


def test_words_that_do_not_sound_english_are_listened_to_again(
    transcriber: Transcriber, english: FakeWhisper, multilingual: FakeWhisper
):
    english.mean_logprob = -1.2
    found = transcriber.run(one_piece(1, 4, LOUD, language="en"), deadline=NEVER)
    assert (found.language, found.text, found.model) == ("zh", "你好，广州。", "large")
    assert (english.encoded, multilingual.encoded) == (1, 1)


def test_mumbled_english_stays_english(transcriber: Transcriber, english: FakeWhisper, multilingual: FakeWhisper):
    english.mean_logprob = -1.2
    found = transcriber.run(one_piece(1, 4, QUIET, language="en"), deadline=NEVER)
    assert (found.language, found.text, multilingual.frames) == ("en", "Hello.", [])


def test_sure_english_costs_no_second_look(transcriber: Transcriber, multilingual: FakeWhisper):
    found = transcriber.run(one_piece(1, 4, LOUD, language="en"), deadline=NEVER)
    assert (found.language, multilingual.encoded) == ("en", 0)


def test_times_are_those_of_the_clip(transcriber: Transcriber):
    (segment,) = heard(transcriber, task((2, 5, QUIET), start_s=1.5))[0].segments
    assert (segment.t_start_s, segment.t_end_s) == (3.5, 4.5)
    assert segment.score == pytest.approx(np.exp(-0.25))


def test_sound_before_the_first_picture_starts_at_zero(transcriber: Transcriber):
    (segment,) = heard(transcriber, task((0, 3, QUIET), start_s=-0.5))[0].segments
    assert (segment.t_start_s, segment.t_end_s) == (0.0, 0.5)


def test_windows_are_short_and_tokens_bounded_by_time(transcriber: Transcriber, english: FakeWhisper):
    heard(transcriber, task((0, 1, QUIET)))
    heard(transcriber, task((0, 10, QUIET)))
    assert english.frames == [600, 1300]
    tokens = [tokens for *_, tokens in english.asked]
    assert tokens == sorted(tokens)
    assert tokens[-1] <= 120


def test_nothing_is_begun_after_the_deadline(transcriber: Transcriber, english: FakeWhisper, multilingual: FakeWhisper):
    late, speech = Deadline(0.0, lambda: 1.0), task((0, 5, QUIET))
    for call in (
        lambda: transcriber.run(one_piece(0, 5, QUIET, language="en"), deadline=late),
        lambda: transcriber.language(speech, deadline=late),
        lambda: transcriber.windows(speech, deadline=late),
    ):
        with pytest.raises(DeadlineExceeded):
            call()
    assert not english.encoded + multilingual.encoded


def test_threads_do_not_disturb_one_another(transcriber: Transcriber):
    found: list[str] = []
    speech = task((1, 4, QUIET), (5, 7, LOUD))

    def listen() -> None:
        found.append("".join(part.text for part in heard(transcriber, speech)))

    threads = [threading.Thread(target=listen) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert found == ["Hello.你好，广州。"] * 4


def test_one_model_may_do_everything():
    both = FakeWhisper("turbo", "Hi.")
    transcriber = Transcriber(english=both, multilingual=both)
    transcriber.warm()
    assert transcriber.model == "turbo"
    assert [part.text for part in heard(transcriber, task((1, 4, QUIET)))] == ["Hi."]


@pytest.mark.parametrize(
    ("language", "model", "hasty", "key"),
    [
        ("en", "auto", False, "transcribe:en"),
        ("en", "base", False, "transcribe:other:1"),
        ("zh", "auto", True, "transcribe:other:1"),
        ("de", "auto", False, "transcribe:other:5"),
    ],
)
def test_what_a_piece_costs_depends_on_who_reads_it_and_how_often(language, model, hasty, key):
    assert cost_key(language, model, hasty=hasty) == key
