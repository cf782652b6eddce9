"""When the pictures and the sound of one stream are shown, measured from its packets."""

from __future__ import annotations  # PyAV's Packet is generic in its stubs only

from av.packet import Packet
from av.stream import Stream
from av.video.stream import VideoStream

from schemas.errors import ErrorCode, MediaError
from stages.media.limits import MediaLimits

_FALLBACK_INTERVAL_S = 1 / 25
_VP8_SHOWN = 0x10
_SUPERFRAME_MARKER = 0xC0


class Track:
    """Collects the presentation times of one stream's packets. Times are seconds on the container's own clock.

    Packets that are not displayed (cut off by an edit list, or there only to be predicted from) do not count, nor do
    those that the container itself knows to be broken (``damaged``). ``encrypted``: packets that need a key.
    """

    def __init__(self, stream: Stream, limits: MediaLimits) -> None:
        self._limits = limits
        self._codec = stream.codec_context.name if stream.codec_context else ""
        self._tick_s = float(stream.time_base or 1)
        rate = stream.average_rate if isinstance(stream, VideoStream) else None
        self._usual_interval_s = float(1 / rate) if rate else _FALLBACK_INTERVAL_S
        self._times: list[float] = []
        self._key_times: list[float] = []
        self._first_s = float("inf")
        self._last_s = float("-inf")
        self._last_duration_s = 0.0
        self.damaged = 0
        self.encrypted = 0

    def add(self, packet: Packet[Stream]) -> None:
        """Note one packet. Raises ``MediaError`` TOO_LONG as soon as that is certain."""
        if packet.has_sidedata("encryption_info"):
            self.encrypted += 1
        if packet.is_corrupt:
            self.damaged += 1
        elif not (packet.is_discard or self._is_hidden(packet)):
            self._note(packet)

    @property
    def count(self) -> int:
        """How many packets are displayed."""
        return len(self._times)

    @property
    def start_s(self) -> float:
        """When the first is shown. Infinite if there is none."""
        return self._first_s

    @property
    def end_s(self) -> float:
        """When the last ends; if it states no duration, it is taken to be average. Minus infinite if there is none."""
        return self._last_s + (self._last_duration_s or self.interval_s)

    @property
    def interval_s(self) -> float:
        """Average seconds from one to the next."""
        if self.count > 1 and self._last_s > self._first_s:
            return (self._last_s - self._first_s) / (self.count - 1)
        return self._usual_interval_s

    def times_s(self, origin_s: float) -> tuple[float, ...]:
        """Return the times of all displayed packets relative to ``origin_s``, sorted."""
        return tuple(sorted(t - origin_s for t in self._times))

    def key_times_s(self, origin_s: float) -> tuple[float, ...]:
        """Return the times of those from which decoding can start, sorted."""
        return tuple(sorted(t - origin_s for t in self._key_times))

    def _note(self, packet: Packet[Stream]) -> None:
        stamp = packet.pts if packet.pts is not None else packet.dts
        # A bare stream has no clock: its pictures are counted.
        t_s = self.count * self._usual_interval_s if stamp is None else stamp * self._tick_s
        self._times.append(t_s)
        if packet.is_keyframe:
            self._key_times.append(t_s)
        self._first_s = min(self._first_s, t_s)
        if t_s > self._last_s:
            # Only this one's duration counts: with reordered pictures, those of others are distances of decoding times.
            self._last_s = t_s
            self._last_duration_s = max(0, packet.duration or 0) * self._tick_s
        if self._last_s + self._last_duration_s - self._first_s > self._limits.max_duration_s:
            raise MediaError(ErrorCode.TOO_LONG, f"longer than the allowed {self._limits.max_duration_s:g} s")
        if self.count > self._limits.max_packets:
            raise MediaError(ErrorCode.TOO_LONG, f"more than the allowed {self._limits.max_packets} packets")

    def _is_hidden(self, packet: Packet[Stream]) -> bool:
        """Whether a VP8 or VP9 packet holds only a picture to predict from (a bit of its header says so)."""
        if self._codec == "vp8":
            return not memoryview(packet)[0] & _VP8_SHOWN
        if self._codec == "vp9":
            data = memoryview(packet)
            return not _vp9_shows(data[0]) and data[-1] & 0xE0 != _SUPERFRAME_MARKER
        return False


def _vp9_shows(header: int) -> bool:
    """Whether a VP9 frame is shown, from its first byte (VP9 bitstream specification, uncompressed_header)."""
    if header & 0x30 == 0x30:  # profile 3: one more bit, show_existing_frame is bit 2, show_frame bit 0
        return bool(header & 0x04 or header & 0x01)
    return bool(header & 0x08 or header & 0x02)
