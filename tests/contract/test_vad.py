"""The real network hears voices and nothing else."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from schemas.deadline import Deadline
from schemas.errors import ConfigurationError, DeadlineExceeded, ErrorCode
from schemas.media import SAMPLE_RATE_HZ, AudioClip
from stages.base import Compute
from stages.vad import Vad
from tests.conftest import manifest
from tests.sounds import SECONDS, clip, listen, noises

pytestmark = pytest.mark.models

NEVER = Deadline.never()
NOISES = noises()
SPOKEN = [entry["path"] for entry in manifest() if entry.get("language")]
SILENT = [entry["path"] for entry in manifest() if entry.get("has_audio") and entry.get("transcript") == ""]
VOICED_BUT_WORDLESS = {"real/bbb_rabbit_5_1.mp4"}  # the rabbit yawns


@pytest.fixture(scope="module")
def vad(weights: Path) -> Vad:
    return Vad(weights / "silero-vad" / "silero_vad_16k_sequence.onnx", Compute())


@pytest.mark.parametrize("name", NOISES)
def test_no_voice_in_noise(vad: Vad, name: str):
    assert vad.run(NOISES[name], deadline=NEVER) == ()


@pytest.mark.parametrize("path", [path for path in SILENT if path not in VOICED_BUT_WORDLESS])
def test_no_voice_in_clips_without_words(vad: Vad, clips: Path, path: str):
    assert vad.run(listen(clips / path), deadline=NEVER) == ()


@pytest.mark.parametrize("path", SPOKEN)
def test_a_voice_in_every_clip_with_words(vad: Vad, clips: Path, path: str):
    audio = listen(clips / path)
    spans = vad.run(audio, deadline=NEVER)
    assert sum(span.end_s - span.start_s for span in spans) > 0.4 * audio.duration_s
    assert all(0 <= span.start_s < span.end_s <= audio.duration_s for span in spans)


def test_speech_is_found_over_music(vad: Vad, clips: Path, clip_truth: dict[str, Any]):
    if "real/bbb_titles_music.webm" not in clip_truth:
        pytest.skip("the clip with music is not among the media here")
    speech = listen(clips / "composite/talk_en_jfk.mp4")
    music = listen(clips / "real/bbb_titles_music.webm").samples[12 * SAMPLE_RATE_HZ :][: len(speech.samples)]
    mixed = AudioClip(np.clip(speech.samples + 2 * music, -1, 1))
    alone, together = (
        sum(span.end_s - span.start_s for span in vad.run(audio, deadline=NEVER)) for audio in (speech, mixed)
    )
    assert together == pytest.approx(alone, rel=0.15)


def test_silence_costs_no_network_call(vad: Vad, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(vad, "_network", None)
    assert vad.run(NOISES["silence"], deadline=NEVER) == ()


def test_long_sound_is_heard_block_by_block(vad: Vad, clips: Path):
    speech = listen(clips / "composite/talk_en_jfk.mp4").samples
    pause = np.zeros(30 * SAMPLE_RATE_HZ - len(speech), np.float32)
    spans = vad.run(AudioClip(np.concatenate([speech, pause] * 3)), deadline=NEVER)
    assert {int(span.start_s // 30) for span in spans} == {0, 1, 2}


def test_a_passed_deadline_is_said_so(vad: Vad):
    with pytest.raises(DeadlineExceeded):
        vad.run(clip(np.ones(SECONDS * SAMPLE_RATE_HZ) * 0.1), deadline=Deadline.after(-1))


def test_no_sound_is_no_speech(vad: Vad):
    assert vad.run(AudioClip(np.zeros(0, np.float32)), deadline=NEVER) == ()


def test_missing_weights_name_the_remedy(tmp_path: Path):
    with pytest.raises(ConfigurationError, match="models pull") as caught:
        Vad(tmp_path / "none.onnx", Compute())
    assert caught.value.code is ErrorCode.MODEL_MISSING


def test_a_file_that_is_no_network_is_refused(tmp_path: Path):
    bad = tmp_path / "bad.onnx"
    bad.write_bytes(b"nonsense")
    with pytest.raises(ConfigurationError):
        Vad(bad, Compute())
