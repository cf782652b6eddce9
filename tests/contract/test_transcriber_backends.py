"""One suite for everything that can run Whisper."""

from collections.abc import Callable
from importlib.util import find_spec
from pathlib import Path

import numpy as np
import pytest

from benchmarks.words import score_speech
from schemas.deadline import Deadline
from schemas.errors import ConfigurationError, StageError
from schemas.media import SAMPLE_RATE_HZ, Samples
from schemas.perception import SpeechSpan
from stages.backends.whisper_ct2 import Ctranslate2Whisper
from stages.backends.whisper_openai import OpenaiWhisper
from stages.base import Compute
from stages.mel import Mel, log_mel
from stages.transcribe import SpeechTask, Transcriber
from stages.whisper import Decoded, Whisper
from tests.sounds import listen
from tests.speech import write_down

pytestmark = [
    pytest.mark.models,
    # openai-whisper sorts torch tensors with NumPy, and leaves its vocabulary file open.
    pytest.mark.filterwarnings("ignore:__array_wrap__:DeprecationWarning"),
    pytest.mark.filterwarnings(r"ignore:Exception ignored in.*\.tiktoken:pytest.PytestUnraisableExceptionWarning"),
]

Load = Callable[[Path], Whisper]

needs_openai = pytest.mark.skipif(
    find_spec("whisper") is None or find_spec("torch") is None,
    reason="openai-whisper is not installed: pip install 'halfsecond[whisper]'",
)


def ctranslate2(folder: Path) -> Whisper:
    return Ctranslate2Whisper(folder, compute=Compute())


def openai(folder: Path) -> Whisper:
    return OpenaiWhisper(folder, compute=Compute(), device="cpu")


@pytest.fixture(
    scope="module",
    params=[pytest.param(ctranslate2, id="ctranslate2"), pytest.param(openai, id="openai", marks=needs_openai)],
)
def load(request: pytest.FixtureRequest) -> Load:
    chosen: Load = request.param
    return chosen


@pytest.fixture(scope="module")
def english(load: Load, weights: Path) -> Whisper:
    return load(weights / "whisper-tiny.en")


@pytest.fixture(scope="module")
def multilingual(load: Load, weights: Path) -> Whisper:
    return load(weights / "whisper-base")


@pytest.fixture(scope="module")
def jfk(clips: Path) -> Samples:
    return listen(clips / "composite/talk_en_jfk.mp4").samples


@pytest.fixture(scope="module")
def lecture(clips: Path) -> Samples:
    return listen(clips / "composite/lecture_zh.mp4").samples


def spectrogram(samples: Samples, seconds: float) -> Mel:
    return log_mel(samples, frames=round(seconds * 100))


def decode(whisper: Whisper, mel: Mel, *, language: str = "en", max_tokens: int = 120, beams: int = 1) -> Decoded:
    return whisper.decode(whisper.encode(mel), language=language, prompt="", max_tokens=max_tokens, beams=beams)


def text(decoded: Decoded) -> str:
    return "".join(piece.text for piece in decoded.pieces)


@pytest.mark.parametrize("beams", [1, 5])
def test_english_in_a_short_window(english: Whisper, jfk: Samples, clip_truth: dict[str, dict[str, str]], beams: int):
    decoded = decode(english, spectrogram(jfk, 14), beams=beams)
    assert score_speech(clip_truth["composite/talk_en_jfk.mp4"]["transcript"], text(decoded)).words.rate <= 0.1
    assert -0.6 < decoded.mean_logprob < 0
    assert 0 <= decoded.no_speech < 0.3


def test_pieces_carry_ascending_times(english: Whisper, jfk: Samples):
    pieces = decode(english, spectrogram(jfk, 14)).pieces
    assert pieces[0].start_s < 1
    assert pieces[-1].end_s == pytest.approx(10.7, abs=0.6)
    starts = [piece.start_s for piece in pieces]
    assert starts == sorted(starts)


def test_tokens_are_bounded(english: Whisper, jfk: Samples):
    few, many = (text(decode(english, spectrogram(jfk, 14), max_tokens=n)).split() for n in (6, 120))
    assert 3 <= len(few) <= 6
    assert len(many) > 15


def test_a_penalty_ends_a_loop(english: Whisper, jfk: Samples):
    """Cut in mid-sentence, these words are said again and again."""
    encoded = english.encode(spectrogram(jfk[: round(2.5 * SAMPLE_RATE_HZ)], 6))
    looped, ended = (
        english.decode(encoded, language="en", prompt="", max_tokens=60, beams=1, repetition_penalty=penalty)
        for penalty in (1.0, 1.1)
    )
    assert ended.tokens < looped.tokens
    assert text(ended).count("fellow") == 1


def test_a_text_before_does_not_shorten_the_answer(multilingual: Whisper, jfk: Samples):
    before = "The president speaks to the people of the United States, on a cold day in January."
    decoded = multilingual.decode(
        multilingual.encode(spectrogram(jfk, 14)), language="en", prompt=before, max_tokens=60, beams=1
    )
    assert "country" in text(decoded)


def test_languages_are_probabilities(multilingual: Whisper, jfk: Samples, lecture: Samples):
    for samples, language in ((jfk, "en"), (lecture[SAMPLE_RATE_HZ:], "zh")):
        found = multilingual.languages(multilingual.encode(spectrogram(samples[: 3 * SAMPLE_RATE_HZ], 4)))
        assert max(found, key=found.__getitem__) == language
        assert found[language] > 0.8
        assert sum(found.values()) == pytest.approx(1, abs=0.01)


def test_mandarin(multilingual: Whisper, lecture: Samples, clip_truth: dict[str, dict[str, str]]):
    found = text(decode(multilingual, spectrogram(lecture, 9), language="zh", beams=5))
    assert score_speech(clip_truth["composite/lecture_zh.mp4"]["transcript"], found).characters.rate <= 0.25


def test_silence_is_doubted(english: Whisper):
    decoded = decode(english, spectrogram(np.zeros(SAMPLE_RATE_HZ, np.float32), 6))
    assert decoded.no_speech > 0.3


def test_the_input_is_left_alone(multilingual: Whisper, jfk: Samples):
    mel = spectrogram(jfk, 6)
    before = mel.copy()
    encoded = multilingual.encode(mel)
    multilingual.languages(encoded)
    decode(multilingual, mel)
    assert np.array_equal(mel, before)


def test_what_is_encoded_once_answers_every_question(multilingual: Whisper, lecture: Samples):
    encoded = multilingual.encode(spectrogram(lecture, 9))

    def ask(beams: int) -> Decoded:
        return multilingual.decode(encoded, language="zh", prompt="", max_tokens=60, beams=beams)

    language = multilingual.languages(encoded)
    first = ask(1), ask(5)
    assert max(language, key=language.__getitem__) == "zh"
    assert [decoded.tokens > 10 for decoded in first] == [True, True]
    assert multilingual.languages(encoded) == language
    assert (ask(1), ask(5)) == first


def test_a_language_nobody_knows_is_an_error(multilingual: Whisper, jfk: Samples):
    with pytest.raises(StageError):
        decode(multilingual, spectrogram(jfk, 6), language="xx")


def test_the_stage_runs_on_it(english: Whisper, multilingual: Whisper, clips: Path):
    transcriber = Transcriber(english=english, multilingual=multilingual)
    transcriber.warm()
    audio = listen(clips / "composite/talk_en_jfk.mp4")
    task = SpeechTask(audio, (SpeechSpan(0.1, 4.6), SpeechSpan(5.2, 10.8)))
    found = write_down(transcriber, task, deadline=Deadline.never())
    assert found.language == "en"
    assert found.model == english.name
    assert "fellow Americans" in found.text


def test_missing_weights_name_the_remedy(load: Load, tmp_path: Path):
    with pytest.raises(ConfigurationError, match="models pull"):
        load(tmp_path / "none")


def test_nonsense_is_refused(load: Load, tmp_path: Path):
    for name in ("model.bin", "config.json", "tokenizer.json"):
        (tmp_path / name).write_bytes(b"\6\0\0\0nonsense")
    with pytest.raises(ConfigurationError):
        load(tmp_path)


@pytest.mark.skipif(find_spec("whisper") is not None, reason="openai-whisper is installed")
def test_the_openai_backend_names_its_extra(weights: Path):
    with pytest.raises(ConfigurationError, match=r"halfsecond\[whisper\]"):
        OpenaiWhisper(weights / "whisper-tiny.en", compute=Compute())


@needs_openai
def test_an_ascend_device_names_its_package(weights: Path):
    if find_spec("torch_npu") is not None:
        pytest.skip("torch_npu is installed")
    with pytest.raises(ConfigurationError, match="torch_npu"):
        OpenaiWhisper(weights / "whisper-tiny.en", compute=Compute(), device="npu")


@needs_openai
@pytest.mark.parametrize("bins", [80, 128])
def test_the_spectrogram_is_that_of_the_reference(jfk: Samples, bins: int):
    import whisper

    reference = whisper.log_mel_spectrogram(jfk, n_mels=bins, padding=2 * SAMPLE_RATE_HZ).numpy()
    assert np.allclose(log_mel(jfk, frames=reference.shape[1], bins=bins), reference, atol=1e-4)


@needs_openai
def test_both_runtimes_read_about_the_same(weights: Path, jfk: Samples):
    mel = spectrogram(jfk, 14)
    fast, reference = (decode(load(weights / "whisper-tiny.en"), mel) for load in (ctranslate2, openai))
    assert score_speech(text(reference), text(fast)).words.rate <= 0.05  # int8 beside float32
    assert fast.mean_logprob == pytest.approx(reference.mean_logprob, abs=0.05)
    assert fast.no_speech == pytest.approx(reference.no_speech, abs=0.05)
