"""Log-mel spectrograms as Whisper was trained on.

The recipe is that of the Whisper paper and its reference code: 25 ms Hann windows every 10 ms, power spectrum, Slaney's
triangular mel filters of equal area, log10, a floor 8 below the loudest cell, scaled by (x + 4) / 4.
"""

from functools import lru_cache

import numpy as np
import numpy.typing as npt

from schemas.media import SAMPLE_RATE_HZ, Samples

Mel = npt.NDArray[np.float32]
"""Shape (bins, frames): one column every 10 ms."""

FRAMES_PER_S = 100
HOP = SAMPLE_RATE_HZ // FRAMES_PER_S
WINDOW = 400

_BLOCK = 16
"""Frames of one matrix product. BLAS libraries start threads for larger ones, which would leave this call's core."""

_FLOOR_BELOW_PEAK = 8.0
_LEAST_POWER = 1e-10

# Slaney's mel scale (Auditory Toolbox, 1998): linear up to 1 kHz, then 27 steps to each factor of 6.4.
_LINEAR_HZ = 200.0 / 3
_BREAK_HZ = 1000.0
_BREAK_MEL = _BREAK_HZ / _LINEAR_HZ
_LOG_STEP = np.log(6.4) / 27


def log_mel(samples: Samples, *, frames: int, bins: int = 80) -> Mel:
    """Return the spectrogram of ``samples``, padded with silence or cut to ``frames`` columns. Does not mutate."""
    rows = -(-frames // _BLOCK) * _BLOCK
    power = _power(_padded(samples[: frames * HOP], rows))
    mel = power.reshape(-1, _BLOCK, power.shape[1]) @ _filters(bins)
    log = np.log10(np.maximum(mel.reshape(rows, bins)[:frames], _LEAST_POWER))
    np.maximum(log, log.max() - _FLOOR_BELOW_PEAK, out=log)
    return np.ascontiguousarray(((log + 4) / 4).T, dtype=np.float32)


def _padded(samples: Samples, rows: int) -> Samples:
    """Return ``samples`` centred on ``rows`` hops: half a window mirrored before, silence behind."""
    half = WINDOW // 2
    padded = np.zeros(rows * HOP + WINDOW, np.float32)
    padded[half : half + len(samples)] = samples
    padded[:half] = padded[half + 1 : 2 * half + 1][::-1]
    return padded


def _power(padded: Samples) -> npt.NDArray[np.float32]:
    """Return the power spectrum of every window, shape (rows, WINDOW / 2 + 1)."""
    windows = np.lib.stride_tricks.sliding_window_view(padded, WINDOW)[:-1:HOP]
    spectrum = np.fft.rfft(windows * _hann())
    return (spectrum.real**2 + spectrum.imag**2).astype(np.float32, copy=False)


@lru_cache(maxsize=1)
def _hann() -> npt.NDArray[np.float32]:
    """Return the periodic Hann window."""
    window = np.hanning(WINDOW + 1)[:-1].astype(np.float32)
    window.setflags(write=False)
    return window


@lru_cache(maxsize=2)
def _filters(bins: int) -> npt.NDArray[np.float32]:
    """Return ``bins`` triangles up to half the sample rate, shape (WINDOW / 2 + 1, bins), each of area 1."""
    hz = np.linspace(0, SAMPLE_RATE_HZ / 2, WINDOW // 2 + 1)[:, None]
    edges = _to_hz(np.linspace(0, _to_mel(SAMPLE_RATE_HZ / 2), bins + 2))
    low, middle, high = edges[:-2], edges[1:-1], edges[2:]
    triangles = np.minimum((hz - low) / (middle - low), (high - hz) / (high - middle))
    filters = (np.maximum(triangles, 0) * 2 / (high - low)).astype(np.float32)
    filters.setflags(write=False)
    return filters


def _to_mel(hz: float) -> float:
    if hz < _BREAK_HZ:
        return hz / _LINEAR_HZ
    return float(_BREAK_MEL + np.log(hz / _BREAK_HZ) / _LOG_STEP)


def _to_hz(mel: npt.NDArray[np.float64]) -> npt.NDArray[np.float64]:
    above = _BREAK_HZ * np.exp(_LOG_STEP * (mel - _BREAK_MEL))
    return np.where(mel < _BREAK_MEL, mel * _LINEAR_HZ, above)
