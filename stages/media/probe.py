"""Measuring a file: every packet is read once, one picture is decoded. What headers claim is only compared."""

from dataclasses import dataclass

from av.audio.stream import AudioStream
from av.container import InputContainer
from av.stream import Stream
from av.video.stream import VideoStream

from schemas.errors import ErrorCode, MediaError, WarningCode
from stages.media.demux import Check, Demuxer
from stages.media.facts import MediaFacts, Notice
from stages.media.opening import OpenedMedia
from stages.media.shape import MIN_SIDE_PX, Shape
from stages.media.streams import choose, has_decoder, is_encrypted
from stages.media.structure import Structure, read_structure
from stages.media.tracks import Track
from stages.media.video import PictureDecoder, Timeline

_CLAIMING = frozenset({"mov", "matroska", "flv", "asf", "avi", "flac", "wav", "caf", "mxf"})
"""Formats whose headers state a duration. For the others FFmpeg estimates one."""

_SLACK_S = 0.5
_SLACK_SHARE = 0.05


@dataclass(frozen=True, slots=True)
class Survey:
    """What the packets of the chosen streams told. A stream without a displayed packet counts as none."""

    structure: Structure
    video: VideoStream | None
    audio: AudioStream | None
    video_track: Track | None
    audio_track: Track | None
    failures: int

    @property
    def origin_s(self) -> float:
        """Time 0 on the container's clock: the first displayed picture, or the first sound of a file without."""
        track = self.video_track or self.audio_track
        return track.start_s if track else 0.0

    @property
    def timeline(self) -> Timeline | None:
        """Where the pictures lie."""
        track = self.video_track
        return Timeline(self.origin_s, track.interval_s, track.key_times_s(self.origin_s)) if track else None


def survey(media: OpenedMedia, check: Check) -> Survey:
    """Read all packets of the streams to analyse. Leaves the container at its end.

    Raises ``MediaError`` with NO_VIDEO_STREAM (neither pictures nor sound), UNSUPPORTED_VIDEO_CODEC,
    UNSUPPORTED_AUDIO_CODEC, ENCRYPTED, TOO_LONG or DAMAGED_CONTAINER.
    """
    structure = read_structure(media.file, media.container.format.name)
    video, audio = choose(media.container, structure.encrypted_tracks)
    _require_readable(structure, video, audio)
    tracks = {stream.index: Track(stream, media.limits) for stream in (video, audio) if stream}
    streams: list[Stream] = [stream for stream in (video, audio) if stream]
    demuxer = Demuxer(media.container, streams, check)
    for packet in demuxer:
        tracks[packet.stream_index].add(packet)
    video_track = tracks[video.index] if video else None
    audio_track = tracks[audio.index] if audio else None
    main = video_track or audio_track
    if main and main.encrypted:
        raise MediaError(ErrorCode.ENCRYPTED, "the pictures or the sound are encrypted")
    found = Survey(
        structure,
        video if video_track and video_track.count else None,
        audio if audio_track and audio_track.count else None,
        video_track if video_track and video_track.count else None,
        audio_track if audio_track and audio_track.count else None,
        demuxer.failures + sum(track.damaged for track in tracks.values()),
    )
    if not (found.video or found.audio):
        raise MediaError(ErrorCode.DAMAGED_CONTAINER, "holds neither a picture nor a sound")
    return found


def measure(media: OpenedMedia, found: Survey, decoder: PictureDecoder | None) -> MediaFacts:
    """Put the facts together; decodes the first picture, since only that tells how large and how turned they are.

    Raises ``MediaError`` with TOO_MANY_PIXELS or DECODE_FAILED.
    """
    declared_s = _declared_s(media.container, found.structure)  # before decoding, which may reopen the container
    shape = decoder.first() if decoder else None
    video, audio = found.video_track, found.audio_track
    origin_s = found.origin_s
    duration_s = max(track.end_s for track in (video, audio) if track) - origin_s
    width, height = shape.display_size if shape else (None, None)
    return MediaFacts(
        container=_container_name(media),
        duration_s=max(0.0, duration_s),
        video_codec=_codec_name(found.video),
        audio_codec=_codec_name(found.audio),
        width=width,
        height=height,
        rotation=shape.orientation.rotation if shape else 0,
        fps=video.count / (video.end_s - video.start_s) if video else None,
        has_audio=audio is not None,
        frame_times_s=video.times_s(origin_s) if video else (),
        keyframe_times_s=video.key_times_s(origin_s) if video else (),
        audio_s=audio.end_s - audio.start_s if audio else 0.0,
        declared_duration_s=declared_s,
        notices=tuple(_notices(found, shape, duration_s, declared_s)),
    )


def _require_readable(structure: Structure, video: VideoStream | None, audio: AudioStream | None) -> None:
    main: Stream | None = video or audio
    if main is None:
        raise MediaError(ErrorCode.NO_VIDEO_STREAM, "holds neither pictures nor sound")
    if structure.scrambled or is_encrypted(main, structure.encrypted_tracks):
        raise MediaError(ErrorCode.ENCRYPTED, "the pictures or the sound are encrypted")
    if not has_decoder(main):
        code = ErrorCode.UNSUPPORTED_VIDEO_CODEC if video else ErrorCode.UNSUPPORTED_AUDIO_CODEC
        raise MediaError(code, "no decoder for this codec")


def _notices(found: Survey, shape: Shape | None, measured_s: float, declared_s: float | None) -> list[Notice]:
    notices: list[Notice] = []
    if found.video_track is None:
        notices.append(Notice(WarningCode.NO_VIDEO_STREAM, "there is only sound"))
    if shape and min(shape.display_size) < MIN_SIDE_PX:
        notices.append(Notice(WarningCode.TOO_SMALL, f"{shape.width} x {shape.height} pixels are too few to see much"))
    claims_more = declared_s is not None and declared_s > measured_s + max(_SLACK_S, _SLACK_SHARE * measured_s)
    if found.structure.cut or (claims_more and found.structure.cut is None):
        notices.append(Notice(WarningCode.TRUNCATED, "the file ends before its contents do"))
    elif claims_more:
        notices.append(Notice(WarningCode.HEADER_MISMATCH, f"the header claims {declared_s:.1f} s"))
    if found.failures and not found.structure.cut:
        notices.append(Notice(WarningCode.DAMAGED_PACKETS, f"{found.failures} packets could not be read"))
    return notices


def _declared_s(container: InputContainer, structure: Structure) -> float | None:
    """Return the longest duration that the headers claim."""
    if _CLAIMING.isdisjoint(container.format.name.split(",")):
        return None
    claims = [container.duration / 1e6] if container.duration else []
    claims += [structure.declared_s] if structure.declared_s else []
    claims += [float(s.duration * s.time_base) for s in container.streams if s.duration and s.time_base]
    return max(claims, default=None)


def _codec_name(stream: Stream | None) -> str | None:
    return stream.codec_context.codec.canonical_name if stream and has_decoder(stream) else None


def _container_name(media: OpenedMedia) -> str:
    """One plain name: FFmpeg's lists a family."""
    family = media.container.format.name.split(",")[0].removesuffix("_pipe")
    if family == "mov":
        return "mov" if media.container.metadata.get("major_brand", "").startswith("qt") else "mp4"
    if family == "matroska":
        return "webm" if b"webm" in media.file.read_at(0, 64) else "matroska"
    return family
