"""Decoding the pictures that are wanted, and as few others as possible."""

from __future__ import annotations  # PyAV's Packet is generic in its stubs only

import bisect
import itertools
import math
import re
from collections import deque
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Literal

import av
from av.codec.context import ThreadType
from av.packet import Packet
from av.stream import Discard, Stream
from av.video.codeccontext import VideoCodecContext
from av.video.frame import VideoFrame
from av.video.reformatter import Interpolation, VideoReformatter
from av.video.stream import VideoStream

from schemas.errors import ErrorCode, MediaError
from stages.media.chooser import Candidate, Chooser
from stages.media.demux import Check, Demuxer
from stages.media.facts import Picture
from stages.media.opening import OpenedMedia
from stages.media.shape import Shape

_SEEK_GAIN = 4
"""Pictures that a jump must save: it costs about as much as decoding three small ones."""

_DENSE = 8
"""With fewer pictures than this from one wanted time to the next, all are decoded: each may be the one."""

_PATIENCE = 100
_MAX_FAILED_SHARE = 0.5
"""When more than this share of ``_PATIENCE`` packets, or of all, cannot be decoded, the rest is garbage, too."""

_DIAGNOSED_PACKETS = 8
_SIZE_REFUSED = re.compile(r"(\d+)x(\d+) (?:exceeds|is invalid)")


@dataclass(frozen=True, slots=True)
class Timeline:
    """Where the pictures of a stream lie, as its packets told. Seconds from the first displayed one.

    ``origin_s``: that one's time on the container's clock.
    """

    origin_s: float
    interval_s: float
    key_times_s: Sequence[float]


@dataclass(slots=True)
class _Run:
    """Decoding without a jump. Mutable."""

    packets: Iterator[Packet[Stream]]
    ready: deque[Candidate[VideoFrame]] = field(default_factory=deque)
    position_s: float = float("-inf")  # of the packets fed
    drained: bool = False  # the decoder has given away what it held back, and takes no more
    damaged_from_s: float = float("inf")
    key_lost: bool = False


class PictureDecoder:
    """Decodes one video stream of an opened file, packet by packet, so that damage costs one picture and not the rest.

    After a packet that failed, pictures count as unclean until the next key picture; when it was a key picture that
    failed, they are dropped, since they show remains of the scene before.
    """

    def __init__(self, media: OpenedMedia, index: int, timeline: Timeline, check: Check) -> None:
        self._media = media
        self._index = index
        self._timeline = timeline
        self._check = check
        self._reformatter = VideoReformatter()
        self._seekable = True
        self._out_of_memory = False
        self._skipped: Literal["DEFAULT", "NONREF"] = "DEFAULT"
        self._packets_fed = 0
        self._damaged_s: set[float] = set()
        self._run: _Run
        self._attach()

    @property
    def packets_damaged(self) -> int:
        """How many of the packets met so far could not be (wholly) decoded."""
        return len(self._damaged_s)

    def first(self) -> Shape:
        """Decode up to the first picture and return how it is shown; the pictures decoded are kept for later.

        Raises ``MediaError`` with TOO_MANY_PIXELS or DECODE_FAILED when the whole stream has none.
        """
        self._start_before(0.0)
        while not self._run.ready and self._advance():
            pass
        if not self._run.ready:
            raise self._undecodable()
        return self._shape(self._run.ready[0].picture)

    def pictures(self, times_s: Sequence[float], *, key_only: bool, max_side_px: int) -> Iterator[Picture]:
        """Yield the pictures nearest to ``times_s`` (ascending) as soon as each is settled.

        ``key_only``: the times are those of key pictures, and nothing else is decoded. May yield fewer than asked for.
        Raises ``MediaError`` DECODE_FAILED when there is none, or when most of the stream cannot be decoded.
        """
        found = False
        for candidate in self._key_pictures(times_s) if key_only else ():
            found = True
            yield self._picture(candidate, max_side_px)
        if found or not times_s:
            return
        for candidate in self._nearest(times_s):
            found = True
            yield self._picture(candidate, max_side_px)
        if not found or self._failed_share() > _MAX_FAILED_SHARE:
            raise self._undecodable()

    def _key_pictures(self, times_s: Sequence[float]) -> Iterator[Candidate[VideoFrame]]:
        for time_s in times_s:
            packet = self._go_to(time_s)
            if packet:
                decoded = self._feed(packet) + self._drain()
                yield from [candidate for candidate in decoded if candidate.clean][:1]

    def _nearest(self, times_s: Sequence[float]) -> Iterator[Candidate[VideoFrame]]:
        chooser = Chooser[VideoFrame](times_s)
        self._skipped = "DEFAULT" if self._is_dense(times_s) else "NONREF"
        if self._is_past(times_s[0]):
            self._start_before(times_s[0])
        while (wanted_s := chooser.wanted_s) is not None:
            if not self._run.ready:
                self._jump(wanted_s)
            if not self._run.ready and not self._advance():
                break
            while self._run.ready:
                yield from chooser.offer(self._run.ready.popleft())
        yield from chooser.finish()

    def _is_dense(self, times_s: Sequence[float]) -> bool:
        gaps_s = [b - a for a, b in itertools.pairwise(times_s)]
        return min(gaps_s, default=times_s[0]) < _DENSE * self._timeline.interval_s

    def _is_past(self, time_s: float) -> bool:
        """Whether the pictures around ``time_s`` have gone by."""
        if self._run.drained and not self._run.ready:
            return True
        next_s = self._run.ready[0].t_s if self._run.ready else self._run.position_s
        return next_s > time_s + self._timeline.interval_s

    def _jump(self, wanted_s: float) -> None:
        """Go to the last key picture before ``wanted_s`` if that is far enough ahead."""
        key_s = self._key_before(wanted_s)
        if self._seekable and key_s > self._run.position_s + _SEEK_GAIN * self._timeline.interval_s:
            self._start_before(wanted_s)

    def _start_before(self, wanted_s: float) -> None:
        """Decode the last key picture before ``wanted_s``, or start over where there is none."""
        key_s = self._key_before(wanted_s)
        packet = self._go_to(key_s) if math.isfinite(key_s) else None
        if packet:
            self._run.ready.extend(self._feed(packet))
        else:
            self._restart()

    def _key_before(self, wanted_s: float) -> float:
        keys = self._timeline.key_times_s
        at = bisect.bisect_right(keys, wanted_s + self._timeline.interval_s / 2) - 1
        return keys[at] if at >= 0 else float("-inf")

    def _advance(self) -> bool:
        """Decode the next packet, or at the end what the decoder still holds. False when there is nothing more."""
        packet = next(self._run.packets, None)
        if packet:
            self._run.ready.extend(self._feed(packet))
            if self._packets_fed >= _PATIENCE and self._failed_share() > _MAX_FAILED_SHARE:
                raise self._undecodable()
            return True
        if self._run.drained:
            return False
        self._run.ready.extend(self._drain())
        return True

    def _feed(self, packet: Packet[Stream]) -> list[Candidate[VideoFrame]]:
        time_s = self._time_s(packet)
        self._run.position_s = max(self._run.position_s, time_s)
        self._packets_fed += 1
        # While a decoder skips anything, FFmpeg hides that a packet was unreadable; of key pictures it must be known.
        self._context.skip_frame = "DEFAULT" if packet.is_keyframe else self._skipped
        frames: list[VideoFrame] = []
        try:
            frames = self._context.decode(packet)
        except av.FFmpegError as error:
            self._run.key_lost = self._run.key_lost or packet.is_keyframe
            self._out_of_memory = self._out_of_memory or isinstance(error, MemoryError)
            self._note_damage(time_s)
        else:
            if packet.is_corrupt:
                self._note_damage(time_s)
        return self._judged(frames)

    def _drain(self) -> list[Candidate[VideoFrame]]:
        """Take out what the decoder holds back for reordering. It must be flushed before it is fed again."""
        self._run.drained = True
        try:
            return self._judged(self._context.decode(None))
        except av.FFmpegError:
            return []

    def _note_damage(self, time_s: float) -> None:
        self._damaged_s.add(time_s)
        self._run.damaged_from_s = min(self._run.damaged_from_s, time_s)

    def _judged(self, frames: list[VideoFrame]) -> list[Candidate[VideoFrame]]:
        candidates: list[Candidate[VideoFrame]] = []
        for frame in frames:
            if frame.width * frame.height > self._media.limits.max_pixels:
                raise MediaError(ErrorCode.TOO_MANY_PIXELS, f"{frame.width} x {frame.height} pixels are too many")
            time_s = self._time_s(frame)
            if frame.key_frame and not frame.is_corrupt and time_s > self._run.damaged_from_s:
                self._run.damaged_from_s, self._run.key_lost = float("inf"), False
            if frame.is_corrupt:
                self._run.damaged_from_s = min(self._run.damaged_from_s, time_s)
            clean = time_s < self._run.damaged_from_s
            if clean or not self._run.key_lost:
                candidates.append(Candidate(time_s, clean, frame))
        return candidates

    def _go_to(self, key_s: float) -> Packet[Stream] | None:
        """Return the packet of the key picture at ``key_s``, ready to be fed; None if it is nowhere to be found."""
        if self._seek(key_s) or self._skip_towards(key_s):
            packet = self._find_key(key_s)
            if packet:
                return packet
        self._restart()
        packet = self._find_key(key_s)
        self._seekable = self._seekable and packet is not None
        return packet

    def _seek(self, key_s: float) -> bool:
        """Seek by the container's index, if it has one. What lies there has still to be looked at."""
        stamp = round((key_s + self._timeline.origin_s) / self._tick_s)
        if not self._seekable or self._stream.index_entries.search_timestamp(stamp, backward=True) < 0:
            return False
        try:
            self._media.container.seek(stamp, stream=self._stream)
        except av.FFmpegError:
            return False
        self._reset()
        return True

    def _skip_towards(self, key_s: float) -> bool:
        """Go on reading from here without decoding, if ``key_s`` lies ahead."""
        if not self._run.position_s < key_s:
            return False
        self._context.flush_buffers()
        self._run = _Run(self._run.packets, position_s=self._run.position_s)
        return True

    def _find_key(self, key_s: float) -> Packet[Stream] | None:
        near_s = self._timeline.interval_s / 2
        packets = (p for p in self._run.packets if p.is_keyframe and abs(self._time_s(p) - key_s) < near_s)
        return next(packets, None)

    def _restart(self) -> None:
        self._media.reopen()
        self._attach()

    def _attach(self) -> None:
        """Take hold of the container as it stands, with a decoder that has seen nothing."""
        for stream in self._media.container.streams:
            stream.discard = Discard.default if stream.index == self._index else Discard.all
        stream = self._media.container.streams[self._index]
        assert isinstance(stream, VideoStream)  # noqa: S101  (the index is ours)
        self._stream = stream
        self._tick_s = float(stream.time_base or 1)
        self._context: VideoCodecContext = stream.codec_context
        self._context.thread_type = ThreadType.NONE
        self._context.thread_count = 1
        # Not smoothing block edges in B pictures saves up to 12 % at 49 dB PSNR or more. Not doing it in P pictures
        # either would save 20 %, but drift to 33 dB in long groups of pictures.
        self._context.options = {"max_pixels": str(self._media.limits.max_pixels), "skip_loop_filter": "bidir"}
        self._reset()

    def _reset(self) -> None:
        """Forget what was decoded; packets come from where the container stands."""
        self._run = _Run(iter(Demuxer(self._media.container, [self._stream], self._check)))

    def _time_s(self, timed: Packet[Stream] | VideoFrame) -> float:
        stamp = timed.pts if timed.pts is not None else timed.dts
        if stamp is None:  # a bare stream: count
            return self._packets_fed * self._timeline.interval_s
        return stamp * self._tick_s - self._timeline.origin_s

    def _shape(self, frame: VideoFrame) -> Shape:
        return Shape.of(frame, self._stream.sample_aspect_ratio or self._context.sample_aspect_ratio)

    def _picture(self, candidate: Candidate[VideoFrame], max_side_px: int) -> Picture:
        shape = self._shape(candidate.picture)
        width, height = shape.scaled(max_side_px)
        # One pass for colour and size. Area averaging costs what fast bilinear does and keeps small text readable
        # (43 dB instead of 24 on a 1080p screen recording scaled to 640).
        rgb = self._reformatter.reformat(
            candidate.picture, width, height, "rgb24", interpolation=Interpolation.AREA, threads=1
        )
        plane = rgb.planes[0]
        return Picture(
            t_s=max(0.0, candidate.t_s),
            width=width,
            height=height,
            stride=plane.line_size,
            display_width=shape.display_size[0],
            display_height=shape.display_size[1],
            orientation=shape.orientation,
            rgb=bytes(plane),
        )

    def _failed_share(self) -> float:
        return len(self._damaged_s) / max(1, self._packets_fed)

    def _undecodable(self) -> MediaError:
        """Say why nothing could be decoded: FFmpeg tells a size that it refused only in its log."""
        self._restart()
        with _ffmpeg_errors() as logs:
            for _, packet in zip(range(_DIAGNOSED_PACKETS), self._run.packets, strict=False):
                self._feed(packet)
        for match in _SIZE_REFUSED.finditer(" ".join(message for _, _, message in logs)):
            width, height = map(int, match.groups())
            if width * height > self._media.limits.max_pixels:
                return MediaError(ErrorCode.TOO_MANY_PIXELS, f"{width} x {height} pixels are too many")
        if self._out_of_memory:
            return MediaError(ErrorCode.DECODER_OUT_OF_MEMORY, "the decoder ran out of memory")
        return MediaError(ErrorCode.DECODE_FAILED, "the pictures cannot be decoded")


@contextmanager
def _ffmpeg_errors() -> Iterator[list[tuple[int, str, str]]]:
    """Collect what FFmpeg logs as errors: tuples that end with the message."""
    level, skips = av.logging.get_level(), av.logging.get_skip_repeated()
    av.logging.set_level(av.logging.ERROR)
    av.logging.set_skip_repeated(False)
    try:
        with av.logging.Capture() as logs:
            yield logs
    finally:
        av.logging.set_level(level)
        av.logging.set_skip_repeated(skips)
