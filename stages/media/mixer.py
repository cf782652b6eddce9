"""Mixing decoded sound down to mono 16 kHz."""

from av.audio.fifo import AudioFifo
from av.audio.frame import AudioFrame
from av.audio.resampler import AudioResampler

from stages.media.facts import SAMPLE_BYTES, SAMPLE_RATE_HZ

_CHUNK_S = 1.0
"""Sound is resampled in pieces of this length: frame by frame costs half as much again."""


class Mixer:
    """Collects frames of any format as mono float32 at 16 kHz; the format may change from frame to frame."""

    def __init__(self) -> None:
        self._parts: list[bytes] = []
        self._format: tuple[str, str, int, int] | None = None
        self._fifo = AudioFifo()
        self._resampler = _resampler()
        self._waiting_s = 0.0
        self._mixed = 0

    @property
    def seconds(self) -> float:
        """Length of all that was added."""
        return self._mixed / SAMPLE_RATE_HZ + self._waiting_s

    def add(self, frame: AudioFrame) -> None:
        """Append a frame. Raises ``av.FFmpegError`` or ``ValueError`` if it cannot be mixed. Clears its time stamp."""
        layout = frame.layout
        # Everything that the queue and the resampler are built for; they do not check it all themselves.
        form = (frame.format.name, layout.name, layout.nb_channels, frame.sample_rate)
        if form != self._format:
            self.flush()
            self._format = form
        frame.pts = None
        self._fifo.write(frame)
        self._waiting_s += frame.samples / frame.sample_rate
        if self._waiting_s >= _CHUNK_S:
            self._mix()

    def add_silence(self, seconds: float) -> None:
        """Append silence."""
        self.flush()
        self._append(bytes(round(seconds * SAMPLE_RATE_HZ) * SAMPLE_BYTES))

    def flush(self) -> None:
        """Mix what is still waiting; whatever comes next starts afresh."""
        self._mix()
        if self._format:
            for mixed in self._resampler.resample(None):
                self._append(_samples(mixed))
        self._format = None
        self._fifo = AudioFifo()
        self._resampler = _resampler()

    def samples(self) -> bytes:
        """Return everything mixed so far, as native float32."""
        return b"".join(self._parts)

    def _mix(self) -> None:
        waiting = self._fifo.read(0, partial=True) if self._waiting_s else None
        self._waiting_s = 0.0
        if waiting:
            for mixed in self._resampler.resample(waiting):
                self._append(_samples(mixed))

    def _append(self, samples: bytes) -> None:
        self._parts.append(samples)
        self._mixed += len(samples) // SAMPLE_BYTES


def _resampler() -> AudioResampler:
    return AudioResampler(format="flt", layout="mono", rate=SAMPLE_RATE_HZ)


def _samples(frame: AudioFrame) -> bytes:
    return bytes(frame.planes[0])[: frame.samples * SAMPLE_BYTES]
