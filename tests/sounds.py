"""Sound for the contract tests: the clips' own, and noises in which nobody speaks."""

from pathlib import Path

import numpy as np
import numpy.typing as npt

from schemas.media import SAMPLE_RATE_HZ, AudioClip
from stages.media.convert import to_clip
from stages.media.limits import MediaLimits
from stages.media.reader import MediaReader

SECONDS = 4
_T = np.arange(SECONDS * SAMPLE_RATE_HZ) / SAMPLE_RATE_HZ

Wave = npt.NDArray[np.float64]


def listen(path: Path) -> AudioClip:
    """Decode the sound of a file."""
    reader = MediaReader(bytes(path), MediaLimits(), check=lambda: None)
    try:
        return to_clip(reader.sound(max_s=60))
    finally:
        reader.close()


def clip(wave: Wave) -> AudioClip:
    """Return ``wave`` as a clip, clipped to full scale."""
    return AudioClip(np.clip(wave, -1, 1).astype(np.float32))


def noises() -> dict[str, AudioClip]:
    """Return sounds without a voice, by name."""
    random = np.random.default_rng(7)
    white = random.normal(size=len(_T))
    sounds = {
        "silence": np.zeros_like(_T),
        "last bit flickering": (random.random(len(_T)) < 0.01) / 32768,
        "constant offset": np.full_like(_T, 0.3),
        "clipped white noise": white * 5,
        "hum": sum((0.3 / k * np.sin(2 * np.pi * 50 * k * _T) for k in range(1, 8)), np.zeros_like(_T)),
        "sweep": 0.5 * np.sin(2 * np.pi * (50 * _T + 800 * _T**2)),
        "siren": 0.5 * np.sin(2 * np.pi * np.cumsum(700 + 300 * np.sin(np.pi * _T)) / SAMPLE_RATE_HZ),
        "pulsing noise": 0.1 * white * (1 + np.sin(2 * np.pi * 4 * _T)),
        "clicks": np.where(np.arange(len(_T)) % 4000 == 0, 0.9, 0.0),
        "wind": _coloured(white, power=0.8) * (0.5 + 0.5 * np.sin(2 * np.pi * 0.3 * _T)),
        "chords": _chords(),
    }
    for hz in (100, 440, 1000, 3000):
        sounds[f"tone of {hz} Hz"] = 0.9 * np.sin(2 * np.pi * hz * _T)
    for db in (-10, -30, -50):
        sounds[f"white noise at {db} dB"] = white * 0.3 * 10 ** (db / 20)
        sounds[f"pink noise at {db} dB"] = _coloured(white, power=0.5) * 10 ** (db / 20)
        sounds[f"brown noise at {db} dB"] = _coloured(white, power=1.0) * 10 ** (db / 20)
    return {name: clip(wave) for name, wave in sounds.items()}


def _coloured(white: Wave, *, power: float) -> Wave:
    spectrum = np.fft.rfft(white)
    wave = np.fft.irfft(spectrum / np.maximum(np.arange(len(spectrum)), 1) ** power, len(white))
    return wave / np.abs(wave).max()


def _chords() -> Wave:
    """Return one struck chord a second, ringing out."""
    ring = np.exp(-(_T % 1))
    roots = np.array([220, 196, 175, 262])[(_T % 4).astype(int)]
    tones = [np.sin(2 * np.pi * roots * step * k * _T) / k for step in (1, 1.26, 1.5) for k in (1, 2, 3, 4)]
    return 0.08 * ring * np.sum(tones, axis=0)
