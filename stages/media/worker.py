"""The owner's end of one decoder process."""

import asyncio
import dataclasses
import json
import signal
import socket
import subprocess
import sys
from itertools import count

from pydantic import TypeAdapter

from schemas.errors import ErrorCode, MediaError
from stages.media.limits import MediaLimits
from stages.media.protocol import (
    HEAD,
    MAX_JSON_BYTES,
    MAX_RAW_BYTES,
    RAW_FIELDS,
    REPLIES,
    Command,
    Reply,
    Request,
    Stop,
    encode_request,
    with_field,
)

_START_TIMEOUT_S = 30.0
_FATE_POLLS = 20
_FATE_POLL_S = 0.005
_BUFFER_BYTES = 4 * 1024**2
"""Asked of the kernel for each direction, so that a picture is handed over in one go; it may grant less."""

_BOOT = "import sys; sys.path[:] = sys.argv[3:]; from stages.media.child import main; main(*sys.argv[1:3])"
"""Not ``-m``, which would let modules in the current folder shadow ours, and not multiprocessing, which would run the
owner's main module a second time."""

_REPLY_TYPES: tuple[TypeAdapter[Reply], ...] = tuple(TypeAdapter(kind) for kind in REPLIES)


class DecoderProcess:
    """One process, to be asked one thing at a time. Built by ``start``; ``kill`` it in the end.

    ``uses`` counts the files it was given. Receiving raises ``MediaError`` DECODER_CRASHED when the process has died or
    talks nonsense; it must then be killed.
    """

    def __init__(
        self, process: subprocess.Popen[bytes], reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> None:
        self._process = process
        self._reader = reader
        self._writer = writer
        self._sequence = count(1)
        self._head: bytes | None = None
        self.uses = 0

    @property
    def alive(self) -> bool:
        """Whether the process runs. One that has nothing to do may have been killed by the system."""
        return self._process.poll() is None

    @classmethod
    async def start(cls, limits: MediaLimits) -> "DecoderProcess":
        """Start a process and wait until it is ready. Leaves nothing behind when that fails or is cancelled."""
        ours, theirs = socket.socketpair()
        with theirs:
            process = _spawn(theirs, limits)
        try:
            ours.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, _BUFFER_BYTES)
            worker = cls(process, *await asyncio.open_unix_connection(sock=ours, limit=_BUFFER_BYTES))
        except BaseException:
            process.kill()
            ours.close()
            await _reap(process)
            raise
        try:
            async with asyncio.timeout(_START_TIMEOUT_S):
                await worker.receive(0)
        except BaseException:
            await worker.kill()
            raise
        return worker

    def ask(self, command: Command, at_s: float) -> int:
        """Send a request, which gives up at the monotonic instant ``at_s``; return its sequence number."""
        sequence = next(self._sequence)
        self._writer.write(encode_request(Request(sequence, at_s, command)))
        return sequence

    def stop(self, sequence: int) -> None:
        """Tell the process to give up a request. Its replies, up to the last, have still to be received."""
        self._writer.write(encode_request(Request(sequence, 0.0, Stop())))

    async def receive(self, sequence: int) -> Reply:
        """Return the next reply to a request; those to earlier ones are dropped. Cancelling loses nothing."""
        while True:
            try:
                answered, reply = await self._next()
            except (asyncio.IncompleteReadError, ConnectionError):
                raise MediaError(ErrorCode.DECODER_CRASHED, f"the decoder died ({await self._fate()})") from None
            except ValueError:  # pydantic's error is one, too
                raise MediaError(ErrorCode.DECODER_CRASHED, "the decoder talks nonsense") from None
            if answered == sequence:
                return reply

    async def kill(self) -> None:
        """End the process, whatever it is doing, and reap it."""
        self._process.kill()
        self._writer.transport.abort()
        await _reap(self._process)

    async def _next(self) -> tuple[int, Reply]:
        # The stream gives away bytes only when all that were asked for are there, so cancelling can only fall between
        # the two reads: the head is remembered.
        if self._head is None:
            self._head = await self._reader.readexactly(HEAD.size)
        kind, sequence, json_bytes, raw_bytes = HEAD.unpack(self._head)
        if kind >= len(REPLIES) or json_bytes > MAX_JSON_BYTES or raw_bytes > MAX_RAW_BYTES:
            raise ValueError("not a reply")
        data = await self._reader.readexactly(json_bytes + raw_bytes)
        self._head = None
        reply: Reply = _REPLY_TYPES[kind].validate_json(data[:json_bytes])
        raw_field = RAW_FIELDS.get(type(reply))
        return sequence, with_field(reply, raw_field, data[json_bytes:]) if raw_field else reply

    async def _fate(self) -> str:
        """Say how the process ended; the kernel may close its socket a little before it tells."""
        for _ in range(_FATE_POLLS):
            code = self._process.poll()
            if code is not None:
                return signal.Signals(-code).name if code < 0 else f"exit status {code}"
            await asyncio.sleep(_FATE_POLL_S)
        return "it closed the connection"


def _spawn(theirs: socket.socket, limits: MediaLimits) -> subprocess.Popen[bytes]:
    theirs.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, _BUFFER_BYTES)
    arguments = [str(theirs.fileno()), json.dumps(dataclasses.asdict(limits)), *sys.path]
    return subprocess.Popen(  # noqa: S603  (our own interpreter and constants)
        [sys.executable, "-P", "-c", _BOOT, *arguments],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        pass_fds=[theirs.fileno()],
        process_group=0,  # an interrupt from the terminal is for the owner
    )


async def _reap(process: subprocess.Popen[bytes]) -> None:
    """Wait for a killed process: milliseconds, and not left undone when the caller is cancelled."""
    await asyncio.shield(asyncio.to_thread(process.wait))
