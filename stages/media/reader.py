"""All that can be learnt from one file, in the order in which it is asked."""

from collections.abc import Iterator, Sequence

from schemas.errors import WarningCode
from stages.media.demux import Check
from stages.media.facts import Damage, MediaFacts, Notice, Picture, Sound
from stages.media.limits import MediaLimits
from stages.media.opening import OpenedMedia, open_media
from stages.media.probe import Survey, measure, survey
from stages.media.sound import decode_sound
from stages.media.video import PictureDecoder


class MediaReader:
    """One opened file. ``check`` is called between packets and ends the work by raising.

    Raises ``MediaError`` whenever the file cannot be analysed. Not thread-safe. Close it after use.
    """

    def __init__(self, path: bytes, limits: MediaLimits, check: Check) -> None:
        self._limits = limits
        self._check = check
        self._media = open_media(path, limits)
        self._survey: Survey | None = None
        self._decoder: PictureDecoder | None = None

    def probe(self) -> MediaFacts:
        """Read all packets and decode the first picture."""
        found = survey(self._media, self._check)
        timeline = found.timeline
        if found.video and timeline:
            self._decoder = PictureDecoder(self._media, found.video.index, timeline, self._check)
        self._survey = found
        return measure(self._media, found, self._decoder)

    def pictures(self, times_s: Sequence[float], *, key_only: bool, max_side_px: int) -> Iterator[Picture]:
        """Yield the pictures nearest to ``times_s``; none for a file without pictures. Probes first if that was not."""
        if self._survey is None:
            self.probe()
        if self._decoder:
            yield from self._decoder.pictures(times_s, key_only=key_only, max_side_px=max_side_px)

    def damage(self) -> Damage:
        """Return what decoding pictures has met so far."""
        count = self._decoder.packets_damaged if self._decoder else 0
        notice = Notice(WarningCode.DAMAGED_PACKETS, f"{count} picture packets could not be decoded")
        return Damage(count, (notice,) if count else ())

    def sound(self, max_s: float) -> Sound:
        """Decode the sound, through a handle of its own: the pictures' decoder stays where it is."""
        media = OpenedMedia(self._media.file.clone(), self._limits)
        try:
            return decode_sound(media, max_s, self._check)
        finally:
            media.close()

    def close(self) -> None:
        """Close the file."""
        self._media.close()
