"""Decoding the sound that belongs to the pictures."""

from __future__ import annotations  # PyAV's Packet is generic in its stubs only

import av
from av.audio.frame import AudioFrame
from av.audio.stream import AudioStream
from av.packet import Packet
from av.stream import Stream

from schemas.errors import WarningCode
from stages.media.demux import Check, Demuxer
from stages.media.facts import SAMPLE_BYTES, SAMPLE_RATE_HZ, Notice, Sound
from stages.media.mixer import Mixer
from stages.media.opening import OpenedMedia
from stages.media.streams import choose, has_decoder, is_encrypted
from stages.media.structure import read_structure

_GAP_S = 0.1
"""Longer holes between frames are kept, as silence; shorter ones are rounding."""

_PRIMING_S = 0.1
"""An encoder's run-up before the first picture is cut off if it is no longer than this."""

_RATES_HZ = range(2_000, 768_001)
_MAX_FAILED_SHARE = 0.5


def decode_sound(media: OpenedMedia, max_s: float, check: Check) -> Sound:
    """Decode the first ``max_s`` seconds of the chosen sound track of ``media``, which stands at its start.

    The pictures' packets are read along with it, because time 0 is the first displayed picture. Sound that begins well
    before it has a negative ``start_s``. A track that cannot be decoded gives no samples and a notice, never an error.
    """
    encrypted = read_structure(media.file, media.container.format.name).encrypted_tracks
    video, audio = choose(media.container, encrypted)
    if audio is None:
        return Sound(start_s=0.0, samples=b"")
    if is_encrypted(audio, encrypted):
        return _undecodable("the sound is encrypted")
    if not has_decoder(audio):
        return _undecodable("the sound's codec is not known")
    decoder = _SoundDecoder(audio, max_s)
    streams: list[Stream] = [audio, video] if video else [audio]
    for packet in Demuxer(media.container, streams, check):
        if packet.stream_index != audio.index:
            decoder.note_picture(packet)
        elif not decoder.feed(packet):
            break
    return decoder.finish()


class _SoundDecoder:
    """Decodes one stream into a ``Mixer``. Times are seconds on the container's clock."""

    def __init__(self, stream: AudioStream, max_s: float) -> None:
        self._context = stream.codec_context
        self._context.thread_count = 1
        self._tick_s = float(stream.time_base or 1)
        self._max_s = max_s
        self._mixer = Mixer()
        self._first_picture_s = float("inf")
        self._start_s: float | None = None
        self._fed = 0
        self._failed = 0
        self._encrypted = False

    def note_picture(self, packet: Packet[Stream]) -> None:
        """Remember when the first picture is shown."""
        stamp = packet.pts if packet.pts is not None else packet.dts
        if stamp is not None and not packet.is_discard and not packet.is_corrupt:
            self._first_picture_s = min(self._first_picture_s, stamp * float(packet.time_base))

    def feed(self, packet: Packet[Stream]) -> bool:
        """Decode one packet. False when no more sound is wanted."""
        self._fed += 1
        self._encrypted = self._encrypted or packet.has_sidedata("encryption_info")
        self._decode(packet)
        return self._mixer.seconds <= self._max_s and not self._encrypted

    def finish(self) -> Sound:
        """Return the sound."""
        self._decode(None)
        self._mixer.flush()
        if self._encrypted:
            return _undecodable("the sound is encrypted")
        samples = self._mixer.samples()
        if not samples or self._failed > _MAX_FAILED_SHARE * self._fed:
            return _undecodable("the sound cannot be decoded") if self._fed else Sound(start_s=0.0, samples=b"")
        notices: list[Notice] = []
        if self._failed:
            notices.append(Notice(WarningCode.DAMAGED_PACKETS, f"{self._failed} sound packets could not be decoded"))
        if len(samples) > self._max_bytes:
            notices.append(Notice(WarningCode.AUDIO_CUT, f"only the first {self._max_s:g} s of sound were decoded"))
        return self._placed(samples[: self._max_bytes], tuple(notices))

    @property
    def _max_bytes(self) -> int:
        return round(self._max_s * SAMPLE_RATE_HZ) * SAMPLE_BYTES

    def _placed(self, samples: bytes, notices: tuple[Notice, ...]) -> Sound:
        start_s = self._start_s or 0.0
        start_s = start_s - self._first_picture_s if self._first_picture_s < float("inf") else 0.0
        if -_PRIMING_S <= start_s < 0:
            return Sound(0.0, samples[round(-start_s * SAMPLE_RATE_HZ) * SAMPLE_BYTES :], notices)
        return Sound(start_s, samples, notices)

    def _decode(self, packet: Packet[Stream] | None) -> None:
        try:
            for frame in self._context.decode(packet):
                self._add(frame)
        except (av.FFmpegError, ValueError):
            self._failed += packet is not None

    def _add(self, frame: AudioFrame) -> None:
        if frame.sample_rate not in _RATES_HZ:
            raise ValueError("no such sample rate")
        stamp = frame.pts if frame.pts is not None else frame.dts
        if stamp is not None:
            self._keep_time(stamp * self._tick_s)
        self._mixer.add(frame)

    def _keep_time(self, time_s: float) -> None:
        """Fill the hole before ``time_s``, where packets are missing, so that later words keep their times."""
        if self._start_s is None:
            self._start_s = time_s
        hole_s = time_s - self._start_s - self._mixer.seconds
        if hole_s > _GAP_S:
            self._mixer.add_silence(min(hole_s, self._max_s - self._mixer.seconds))


def _undecodable(reason: str) -> Sound:
    return Sound(start_s=0.0, samples=b"", notices=(Notice(WarningCode.AUDIO_UNDECODABLE, reason),))
