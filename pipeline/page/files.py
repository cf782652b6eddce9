"""Names and bytes that come from outside, on their way into the report's folder."""

import os
import re
import shutil
import stat
import unicodedata
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from schemas.result import Media

MAX_PLAYER_BYTES = 64 * 1024 * 1024
"""A report should stay small enough to send; a longer clip is read from its own place."""

SLUG_CHARS = 40

_VIDEO = {"h264", "vp8", "vp9", "av1"}
_AUDIO = {"aac", "mp3", "opus", "vorbis", "flac"}
_CONTAINERS = (
    # (names that demuxers give, file name in the report, codecs that browsers play in it)
    ({"mp4", "mov"}, "mp4", _VIDEO | _AUDIO),
    ({"webm"}, "webm", {"vp8", "vp9", "av1", "opus", "vorbis"}),
    ({"mp3"}, "mp3", {"mp3"}),
    ({"wav"}, "wav", {"pcm_s16le", "pcm_u8", "pcm_f32le"}),
    ({"flac"}, "flac", {"flac"}),
    ({"ogg"}, "ogg", {"opus", "vorbis", "flac"}),
)


@dataclass(frozen=True, slots=True)
class Player:
    """A copy of the clip that a browser can play."""

    file: str
    kind: Literal["video", "audio"]


def clip_folder(number: int, name: str) -> str:
    """Return a folder name for the ``number``-th clip: unique by its number, readable by its slug, safe anywhere."""
    plain = unicodedata.normalize("NFKD", name.encode("utf-8", "replace").decode()).encode("ascii", "ignore").decode()
    slug = re.sub(r"[^a-z0-9]+", "-", plain.lower())[:SLUG_CHARS].strip("-")
    return f"{number:03d}-{slug}" if slug else f"{number:03d}"


def copy_player(source: Path | None, folder: Path, *, media: Media | None) -> Player | None:
    """Copy a clip that browsers play, and that is not too large, into ``folder``. None when there is no such clip.

    The file is not trusted to be still what it was: pipes and devices are left alone, a copy that fails is dropped.
    """
    extension = _playable(media) if source and media else None
    if source is None or media is None or extension is None:
        return None
    file = f"clip.{extension}"
    if not _copied(source, folder / file):
        return None
    return Player(file, "video" if media.video_codec else "audio")


def _playable(media: Media) -> str | None:
    """Return the extension under which a browser plays ``media``, if it does."""
    names = set(media.container.lower().split(","))
    codecs = {codec for codec in (media.video_codec, media.audio_codec) if codec}
    fits = (ext for known, ext, plays in _CONTAINERS if names & known and codecs and codecs <= plays)
    return next(fits, None)


def _copied(source: Path, target: Path) -> bool:
    try:
        # Without O_NONBLOCK, opening a pipe that replaced the clip would wait for a writer for ever.
        handle = os.open(source, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
        with os.fdopen(handle, "rb") as clip:
            status = os.fstat(clip.fileno())
            if not stat.S_ISREG(status.st_mode) or status.st_size > MAX_PLAYER_BYTES:
                return False
            with target.open("wb") as copy:
                shutil.copyfileobj(clip, copy)
    except (OSError, ValueError):
        target.unlink(missing_ok=True)
        return False
    return True
