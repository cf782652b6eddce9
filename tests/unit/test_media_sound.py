import os
import struct
from pathlib import Path

import numpy as np
import pytest

from schemas.errors import WarningCode
from schemas.media import SAMPLE_RATE_HZ, AudioClip
from stages.media.convert import to_clip
from stages.media.limits import MediaLimits
from stages.media.reader import MediaReader
from tests.media_samples import TONE_HZ, Film, Tone, write_clip


def listen(path: Path, max_s: float = 60) -> AudioClip:
    reader = MediaReader(os.fsencode(path), MediaLimits(), lambda: None)
    try:
        return to_clip(reader.sound(max_s))
    finally:
        reader.close()


def pitch_hz(samples: np.ndarray) -> float:
    return float(np.abs(np.fft.rfft(samples)).argmax() * SAMPLE_RATE_HZ / len(samples))


def codes(clip: AudioClip) -> set[WarningCode]:
    return {warning.code for warning in clip.warnings}


@pytest.mark.parametrize(
    ("name", "tone"),
    [
        ("a.mp4", Tone()),
        ("a.mp4", Tone(layout="stereo", rate_hz=44_100)),
        ("a.mp4", Tone(rate_hz=16_000)),
        ("a.wav", Tone(codec="pcm_mulaw", rate_hz=8_000)),
        ("a.wav", Tone(codec="pcm_f32le", rate_hz=96_000)),
        ("a.ogg", Tone(codec="libopus")),
        ("a.mp3", Tone(codec="libmp3lame")),
        ("a.flac", Tone(codec="flac", layout="5.1")),
    ],
)
def test_a_tone_stays_the_same_tone(tmp_path: Path, name: str, tone: Tone) -> None:
    clip = listen(write_clip(tmp_path / name, None, tone))
    assert clip.samples.dtype == np.float32
    assert clip.duration_s == pytest.approx(2.0, abs=0.06)
    assert clip.start_s == 0
    assert pitch_hz(clip.samples[4000:28_000]) == pytest.approx(TONE_HZ, abs=1)
    assert clip.warnings == ()


@pytest.mark.parametrize("channel", [0, 1, 2, 4, 5])
def test_every_speaker_of_surround_sound_is_heard(tmp_path: Path, channel: int) -> None:
    clip = listen(write_clip(tmp_path / "a.wav", None, Tone(codec="pcm_s16le", layout="5.1", loud=(channel,))))
    assert pitch_hz(clip.samples) == pytest.approx(TONE_HZ, abs=1)
    assert np.abs(clip.samples).max() > 0.05


def test_no_more_sound_is_decoded_than_asked_for(tmp_path: Path) -> None:
    path = write_clip(tmp_path / "a.mp4", None, Tone(seconds=5))
    clip = listen(path, max_s=1.5)
    assert clip.duration_s == 1.5
    assert codes(clip) == {WarningCode.AUDIO_CUT}
    assert WarningCode.AUDIO_CUT not in codes(listen(path, max_s=6))


def test_sound_is_placed_relative_to_the_first_picture(tmp_path: Path) -> None:
    late = listen(write_clip(tmp_path / "late.mkv", Film(), Tone(seconds=1, first_s=1.0)))
    early = listen(write_clip(tmp_path / "early.mkv", Film(first_stamp=25), Tone(seconds=2)))
    assert late.start_s == pytest.approx(1.0, abs=0.03)
    assert early.start_s == pytest.approx(-1.0, abs=0.03)


def test_a_hole_in_the_sound_stays_a_hole(tmp_path: Path) -> None:
    clip = listen(write_clip(tmp_path / "a.mkv", None, Tone(codec="pcm_s16le", seconds=2, hole_s=(0.5, 1.5))))
    assert clip.duration_s == pytest.approx(2.0, abs=0.05)
    assert np.abs(clip.samples[10_000:22_000]).max() < 0.01
    assert np.abs(clip.samples[26_000:31_000]).max() > 0.3


def test_a_clip_without_sound_gives_no_samples_and_no_warning(tmp_path: Path) -> None:
    clip = listen(write_clip(tmp_path / "a.mp4", Film(), None))
    assert (len(clip.samples), clip.warnings) == (0, ())


@pytest.mark.parametrize("entry", [b"enca", b"zz9z"])
def test_sound_that_cannot_be_decoded_is_a_warning_and_no_error(tmp_path: Path, entry: bytes) -> None:
    data = write_clip(tmp_path / "a.mp4", Film(), Tone()).read_bytes()
    (tmp_path / "a.mp4").write_bytes(data.replace(b"mp4a", entry).replace(b"esds", b"free"))
    clip = listen(tmp_path / "a.mp4")
    assert (len(clip.samples), codes(clip)) == (0, {WarningCode.AUDIO_UNDECODABLE})


def test_damaged_sound_is_decoded_around_the_damage_and_keeps_its_times(tmp_path: Path) -> None:
    data = write_clip(tmp_path / "a.mp4", None, Tone(seconds=4), options={"movflags": "faststart"}).read_bytes()
    at = round(len(data) * 0.6)
    (tmp_path / "a.mp4").write_bytes(data[:at] + bytes(600) + data[at + 600 :])
    clip = listen(tmp_path / "a.mp4")
    assert clip.duration_s == pytest.approx(4.0, abs=0.1)


def test_samples_are_finite_and_within_bounds_whatever_the_file_holds(tmp_path: Path) -> None:
    wild = np.array([np.nan, np.inf, -np.inf, 1e30, -5, 0.25] * 400, "<f4").tobytes()
    head = struct.pack(
        "<4sI4s4sIHHIIHH4sI",
        b"RIFF",
        36 + len(wild),
        b"WAVE",
        b"fmt ",
        16,
        3,
        1,
        16_000,
        64_000,
        4,
        32,
        b"data",
        len(wild),
    )
    (tmp_path / "a.wav").write_bytes(head + wild)
    samples = listen(tmp_path / "a.wav").samples
    assert len(samples) == 2400
    assert bool(np.isfinite(samples).all())
    assert np.abs(samples).max() <= 1


@pytest.mark.parametrize("rate_hz", [1, 100, 1_500_000])
def test_an_absurd_sample_rate_is_not_resampled(tmp_path: Path, rate_hz: int) -> None:
    data = write_clip(tmp_path / "a.wav", None, Tone(codec="pcm_s16le")).read_bytes()
    (tmp_path / "a.wav").write_bytes(data[:24] + struct.pack("<I", rate_hz) + data[28:])
    clip = listen(tmp_path / "a.wav")
    assert (len(clip.samples), codes(clip)) == (0, {WarningCode.AUDIO_UNDECODABLE})
