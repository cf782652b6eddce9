"""Which streams of a file a person would watch and hear."""

from collections.abc import Set as AbstractSet
from typing import NamedTuple

from av.audio.stream import AudioStream
from av.container import InputContainer
from av.stream import Disposition, Stream
from av.video.stream import VideoStream

_NOT_THE_FILM = Disposition.attached_pic | Disposition.timed_thumbnails
_NOT_FOR_ALL = (
    Disposition.comment
    | Disposition.lyrics
    | Disposition.karaoke
    | Disposition.hearing_impaired
    | Disposition.visual_impaired
    | Disposition.clean_effects
)
_MATROSKA_KEY_TAG = "enc_key_id"
"""Set by FFmpeg on a Matroska track whose blocks are encrypted."""


class Chosen(NamedTuple):
    """The pictures and the sound to analyse."""

    video: VideoStream | None
    audio: AudioStream | None


def choose(container: InputContainer, encrypted_tracks: AbstractSet[int]) -> Chosen:
    """Choose the film and the sound that belongs to it.

    Of what can be decoded, the default ones; of those, the largest picture, and the sound that follows it most closely.
    Cover pictures and thumbnails are no film.
    """
    streams = container.streams
    films = [s for s in streams.video if not s.disposition & _NOT_THE_FILM]
    video = max(films, key=lambda s: _video_rank(s, encrypted_tracks), default=None)
    anchor = video.index if video else 0
    distance = len(streams)
    audio = max(
        streams.audio,
        key=lambda s: (*_rank(s, encrypted_tracks), -((s.index - anchor) % distance)),
        default=None,
    )
    return Chosen(video, audio)


def is_encrypted(stream: Stream, encrypted_tracks: AbstractSet[int]) -> bool:
    """Whether the container says that this stream cannot be read without a key."""
    return stream.id in encrypted_tracks or _MATROSKA_KEY_TAG in stream.metadata


def has_decoder(stream: Stream) -> bool:
    """Whether its codec is known. PyAV gives a stream of an unknown one no codec context, whatever its types say."""
    return stream.codec_context is not None


def _rank(stream: Stream, encrypted_tracks: AbstractSet[int]) -> tuple[bool, bool, bool]:
    return (
        has_decoder(stream) and not is_encrypted(stream, encrypted_tracks),
        not stream.disposition & _NOT_FOR_ALL,
        bool(stream.disposition & Disposition.default),
    )


def _video_rank(stream: VideoStream, encrypted_tracks: AbstractSet[int]) -> tuple[bool, bool, bool, int, int]:
    pixels = stream.width * stream.height if has_decoder(stream) else 0
    return (*_rank(stream, encrypted_tracks), pixels, -stream.index)
