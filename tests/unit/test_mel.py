"""The spectrogram is the one Whisper was trained on."""

import numpy as np
import pytest

from schemas.media import SAMPLE_RATE_HZ, Samples
from stages.mel import log_mel


def tone(hz: float, *, seconds: float = 1.0, level: float = 0.5) -> Samples:
    t = np.arange(round(seconds * SAMPLE_RATE_HZ)) / SAMPLE_RATE_HZ
    return (level * np.sin(2 * np.pi * hz * t)).astype(np.float32)


@pytest.mark.parametrize("bins", [80, 128])
def test_a_frame_every_ten_milliseconds(bins: int):
    mel = log_mel(tone(440), frames=400, bins=bins)
    assert mel.shape == (bins, 400)
    assert mel.dtype == np.float32
    assert mel.flags.c_contiguous


def test_silence_is_flat():
    # log10 of the least power, -10, is scaled to (-10 + 4) / 4.
    assert np.allclose(log_mel(np.zeros(16_000, np.float32), frames=100), -1.5)


def test_the_floor_lies_two_below_the_peak():
    mel = log_mel(tone(440), frames=300)
    assert mel.max() - mel.min() == pytest.approx(8 / 4)


def test_what_follows_the_sound_is_silence():
    mel = log_mel(tone(440), frames=300)
    assert (mel[:, 105:] == mel.min()).all()


def test_ten_times_louder_is_half_a_step_up():
    quiet, loud = (log_mel(tone(1000, level=level), frames=100).max() for level in (0.05, 0.5))
    assert loud - quiet == pytest.approx(2 / 4, abs=1e-3)  # a hundredfold power


@pytest.mark.parametrize("hz", [250, 440, 1000, 2500, 6000])
def test_a_tone_lights_up_its_own_band(hz: float):
    # Slaney's scale: 15 mel at 1 kHz, then 27 to each factor of 6.4; 80 bands over the mel of 8 kHz.
    mels = [f * 3 / 200 if f < 1000 else 15 + 27 * np.log(f / 1000) / np.log(6.4) for f in (hz, 8000)]
    expected = mels[0] / mels[1] * 81 - 1
    brightest = log_mel(tone(hz), frames=100)[:, 50].argmax()
    assert abs(brightest - expected) <= 1


def test_white_noise_is_level_because_every_band_has_the_same_area():
    noise = np.random.default_rng(0).normal(0, 0.1, 160_000).astype(np.float32)
    power = 10 ** (4 * log_mel(noise, frames=1000) - 4)
    bands = power.mean(axis=1)[5:75]
    assert bands.max() / bands.min() < 1.5


def test_sound_beyond_the_window_is_cut():
    assert np.array_equal(log_mel(tone(440, seconds=5), frames=100)[:, :98], log_mel(tone(440), frames=100)[:, :98])


def test_the_input_is_left_alone():
    samples = tone(440)
    before = samples.copy()
    log_mel(samples, frames=50)
    assert np.array_equal(samples, before)


def test_no_sound_at_all_is_silence():
    assert np.allclose(log_mel(np.zeros(0, np.float32), frames=100), -1.5)
