"""The decoder process: answers requests about one file at a time until its owner goes away.

Started by ``stages.media.worker``. It imports nothing heavy, limits itself before it sees a file, and dies when its
owner's end of the socket closes, or by the kernel's alarm clock when a decoder hangs.
"""

import gc
import json
import os
import resource
import select
import signal
import socket
import time
from contextlib import suppress
from pathlib import Path

import av
import av.logging

from schemas.errors import DeadlineExceeded, ErrorCode, MediaError, StageError
from stages.media.limits import MediaLimits
from stages.media.protocol import (
    Close,
    Command,
    Done,
    Failed,
    Listen,
    Open,
    Pictures,
    Probe,
    Reply,
    Request,
    Stop,
    decode_request,
    encode_reply,
)
from stages.media.reader import MediaReader

_POLL_S = 0.002
_ALARM_GRACE_S = 5.0
_RECEIVE_BYTES = 64 * 1024
_MAX_DESCRIPTORS = 64


class StoppedError(Exception):
    """Raised between packets when the owner has lost interest."""


class Decoder:
    """Serves requests from one socket."""

    def __init__(self, connection: socket.socket, limits: MediaLimits) -> None:
        self._connection = connection
        self._limits = limits
        self._inbox = b""
        self._request = Request(0, float("inf"), Close())
        self._next_poll_s = 0.0
        self._reader: MediaReader | None = None

    def serve(self) -> None:
        """Answer requests until the owner hangs up."""
        self._send(Done())
        while True:
            self._request = self._receive()
            if isinstance(self._request.command, Stop):  # came too late
                continue
            self._set_alarm()
            reply = self._answer(self._request.command)
            self._send(reply)
            signal.setitimer(signal.ITIMER_REAL, 0)
            if isinstance(reply, Failed) and reply.code is ErrorCode.DECODER_OUT_OF_MEMORY:
                return

    def _answer(self, command: Command) -> Reply:
        try:
            return self._do(command)
        except (MediaError, StageError) as error:
            return Failed(error.code, error.message, retryable=error.retryable)
        except StoppedError:
            return Failed(ErrorCode.INTERNAL, "stopped")
        except MemoryError:
            return Failed(ErrorCode.DECODER_OUT_OF_MEMORY, "the decoder ran out of memory")
        except av.FFmpegError:
            return Failed(ErrorCode.DECODE_FAILED, "the file cannot be decoded")
        except Exception as error:  # noqa: BLE001  (the owner is told, and goes on with the next file)
            return Failed(ErrorCode.INTERNAL, f"the decoder failed: {type(error).__name__}")

    def _do(self, command: Command) -> Reply:
        if isinstance(command, Open | Close):
            self._close()
        if isinstance(command, Open):
            self._reader = MediaReader(command.path.encode("latin-1"), self._limits, self._check)
        reader = self._reader
        if reader is None:
            return Done()
        match command:
            case Probe():
                return reader.probe()
            case Pictures(times_s=times_s, key_only=key_only, max_side_px=max_side_px):
                for picture in reader.pictures(times_s, key_only=key_only, max_side_px=max_side_px):
                    self._send(picture)
                    self._set_alarm()
                return reader.damage()
            case Listen(max_s=max_s):
                return reader.sound(max_s)
            case _:
                return Done()

    def _close(self) -> None:
        if self._reader:
            self._reader.close()
            self._reader = None
            gc.collect()  # PyAV's objects refer to each other in circles, and hold on to pictures of up to 100 MB each

    def _check(self) -> None:
        """Raise when the current request is to end. Called between packets."""
        now_s = time.monotonic()
        if now_s >= self._request.at_s:
            raise DeadlineExceeded
        if now_s < self._next_poll_s:
            return
        self._next_poll_s = now_s + _POLL_S
        while self._has_line() or select.select([self._connection], [], [], 0)[0]:
            other = self._receive()
            if isinstance(other.command, Stop) and other.sequence == self._request.sequence:
                raise StoppedError

    def _has_line(self) -> bool:
        return b"\n" in self._inbox

    def _receive(self) -> Request:
        while not self._has_line():
            data = self._connection.recv(_RECEIVE_BYTES)
            if not data:
                os._exit(0)  # the owner is gone; nothing here is worth tidying up
            self._inbox += data
        line, _, self._inbox = self._inbox.partition(b"\n")
        return decode_request(line)

    def _send(self, reply: Reply) -> None:
        signal.setitimer(signal.ITIMER_REAL, 0)  # a slow owner is not a hung decoder
        head, raw = encode_reply(self._request.sequence, reply)
        self._connection.sendall(head)
        self._connection.sendall(raw)

    def _set_alarm(self) -> None:
        """Have the kernel end this process should a decoder hang and the owner not be there to see it."""
        signal.setitimer(signal.ITIMER_REAL, self._limits.job_timeout_s + _ALARM_GRACE_S)


def harden(limits: MediaLimits) -> None:
    """Give up what a decoder never needs: memory beyond its share, files to write, many descriptors, core dumps.

    Terminal and service signals are for the owner, which then hangs up. The kernel, if it runs out of memory, shall
    take this process first.
    """
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, signal.SIG_IGN)
    with suppress(OSError):
        Path("/proc/self/oom_score_adj").write_text("800", "ascii")
    bounds = (
        (resource.RLIMIT_AS, limits.memory_bytes),
        (resource.RLIMIT_NOFILE, _MAX_DESCRIPTORS),
        (resource.RLIMIT_FSIZE, 0),
        (resource.RLIMIT_CORE, 0),
    )
    for kind, bound in bounds:
        with suppress(OSError, ValueError):
            resource.setrlimit(kind, (bound, bound))


def main(descriptor: str, limits_json: str) -> None:
    """Run in a fresh process, with the socket it inherited."""
    limits = MediaLimits(**json.loads(limits_json))
    harden(limits)
    av.logging.set_level(None)
    gc.freeze()  # what is loaded now stays, and need not be looked through after every file
    with socket.socket(fileno=int(descriptor)) as connection, suppress(BrokenPipeError, ConnectionResetError):
        Decoder(connection, limits).serve()
