import asyncio
import json
import socket
import subprocess
import sys
from collections.abc import AsyncIterator

import numpy as np
import pytest
import pytest_asyncio

from schemas.errors import ErrorCode, MediaError, WarningCode
from stages.media.convert import to_clip, to_frame, to_probed
from stages.media.facts import Damage, MediaFacts, Notice, Picture, Sound
from stages.media.orientation import Orientation
from stages.media.protocol import (
    HEAD,
    MAX_RAW_BYTES,
    REPLIES,
    Close,
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
    encode_request,
)
from stages.media.worker import DecoderProcess

FACTS = MediaFacts(
    container="mp4",
    duration_s=1.0,
    width=4,
    height=2,
    fps=25.0,
    frame_times_s=(0.0, 0.5),
    keyframe_times_s=(0.0,),
    notices=(Notice(WarningCode.TRUNCATED, "cut"),),
)
PICTURE = Picture(0.5, 2, 1, 8, 2, 1, Orientation(mirror_x=True), bytes([1, 2, 3, 4, 5, 6, 0, 0]))
SOUND = Sound(0.25, np.array([0.5, np.nan, 2.0], np.float32).tobytes())
ANSWERS: list[Reply] = [
    Done(),
    Failed(ErrorCode.ENCRYPTED, "secret", retryable=False),
    FACTS,
    PICTURE,
    Damage(3, (Notice(WarningCode.DAMAGED_PACKETS, "three"),)),
    SOUND,
]


@pytest.mark.parametrize(
    "command",
    [Open("a\nb\xff"), Probe(), Pictures((0.5, 1.0), key_only=True, max_side_px=9), Listen(3.0), Close(), Stop()],
)
def test_a_request_is_one_line_and_comes_back_as_it_was(command: object) -> None:
    line = encode_request(Request(7, float("inf"), command))
    assert line.count(b"\n") == 1
    decoded = decode_request(line)
    assert (decoded.sequence, decoded.at_s, type(decoded.command)) == (7, float("inf"), type(command))
    assert encode_request(decoded) == line


class Liar:
    """The other end of a ``DecoderProcess``, to say whatever is wanted."""

    def __init__(self, process: DecoderProcess, end: socket.socket) -> None:
        self.process = process
        self._end = end

    async def says(self, data: bytes, sequence: int = 1) -> Reply:
        self._end.sendall(data)
        async with asyncio.timeout(5):
            return await self.process.receive(sequence)


@pytest_asyncio.fixture
async def liar() -> AsyncIterator[Liar]:
    ours, theirs = socket.socketpair()
    child = subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE)  # noqa: ASYNC220
    process = DecoderProcess(child, *await asyncio.open_unix_connection(sock=ours))
    with theirs:
        yield Liar(process, theirs)
        await process.kill()
    child.stdin.close()


@pytest.mark.parametrize("answer", ANSWERS, ids=lambda answer: type(answer).__name__)
async def test_a_reply_comes_back_as_it_was(liar: Liar, answer: Reply) -> None:
    assert await liar.says(b"".join(encode_reply(1, answer))) == answer


async def test_replies_to_earlier_requests_are_dropped(liar: Liar) -> None:
    old, new = (b"".join(encode_reply(sequence, Damage(sequence))) for sequence in (1, 2))
    assert await liar.says(old + new, sequence=2) == Damage(2)


async def test_a_reply_that_was_waited_for_in_vain_is_not_lost(liar: Liar) -> None:
    data = b"".join(encode_reply(1, SOUND))
    for part in (data[:5], data[5:20], data[20:-1]):
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(0.02):
                await liar.says(part)
    assert await liar.says(data[-1:]) == SOUND


def head(kind: int, body: bytes, raw_bytes: int = 0) -> bytes:
    return HEAD.pack(kind, 1, len(body), raw_bytes) + body


FACTS_KIND = REPLIES.index(MediaFacts)
NONSENSE = {
    "an unknown kind": head(len(REPLIES), b"{}"),
    "no JSON": head(0, b"\x80\x04\x95"),
    "a missing field": head(FACTS_KIND, b"{}"),
    "a field of another type": head(FACTS_KIND, b'{"container": "mp4", "duration_s": "long"}'),
    "not a number": head(FACTS_KIND, b'{"container": "mp4", "duration_s": NaN}'),
    "an unknown error code": head(1, json.dumps({"code": "OOPS", "message": "", "retryable": False}).encode()),
    "too many raw bytes": head(5, b"{}", MAX_RAW_BYTES + 1),
}


@pytest.mark.parametrize("name", NONSENSE)
async def test_a_decoder_that_talks_nonsense_counts_as_crashed(liar: Liar, name: str) -> None:
    with pytest.raises(MediaError) as error:
        await liar.says(NONSENSE[name])
    assert error.value.code is ErrorCode.DECODER_CRASHED


def test_facts_become_media_with_the_frames_counted() -> None:
    probed = to_probed(FACTS)
    assert (probed.media.frame_count, probed.media.width, probed.warnings[0].code) == (2, 4, WarningCode.TRUNCATED)
    with pytest.raises(ValueError, match="duration_s"):
        to_probed(MediaFacts(container="mp4", duration_s=-1.0))


def test_a_picture_becomes_an_upright_frame_without_its_padding() -> None:
    frame = to_frame(PICTURE, 3)
    assert frame.index == 3
    assert frame.image.tolist() == [[[4, 5, 6], [1, 2, 3]]]


@pytest.mark.parametrize(("width", "height", "stride"), [(3, 1, 8), (2, 2, 8), (2, 1, 0), (-1, 1, 8)])
def test_a_picture_whose_size_does_not_fit_its_bytes_is_refused(width: int, height: int, stride: int) -> None:
    with pytest.raises(ValueError, match=r".+"):
        to_frame(Picture(0, width, height, stride, 2, 1, Orientation(), PICTURE.rgb), 0)


def test_sound_becomes_finite_samples() -> None:
    clip = to_clip(SOUND)
    assert clip.samples.tolist() == [0.5, 0.0, 1.0]
    with pytest.raises(ValueError, match="buffer size"):
        to_clip(Sound(0.0, b"xxxxx"))
