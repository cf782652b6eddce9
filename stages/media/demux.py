"""Reading packets past damage."""

from __future__ import annotations  # PyAV's Packet is generic in its stubs only

from collections.abc import Callable, Iterator, Sequence

import av
from av.container import InputContainer
from av.packet import Packet
from av.stream import Stream

Check = Callable[[], None]
"""Called between packets; raises when the work is to end: ``DeadlineExceeded``, or what the caller made it raise."""

_MAX_FAILURES = 32
"""Reads that may fail before the rest of a file is given up. FFmpeg goes on behind the damage after most failures."""


class Demuxer:
    """Iterates the packets of some streams of a container, from where it stands to its end.

    ``failures`` counts the reads that failed. The empty packets with which PyAV marks the end are left out.
    """

    def __init__(self, container: InputContainer, streams: Sequence[Stream], check: Check) -> None:
        self._container = container
        self._streams = streams
        self._check = check
        self.failures = 0

    def __iter__(self) -> Iterator[Packet[Stream]]:
        while self.failures < _MAX_FAILURES:
            try:
                for packet in self._container.demux(*self._streams):
                    self._check()
                    if packet.size:
                        yield packet
            except av.FFmpegError:
                self.failures += 1
            except IndexError:  # PyAV at the end of a file in which a stream turned up late
                return
            else:
                return
