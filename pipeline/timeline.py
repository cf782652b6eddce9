"""Everything that happens in a clip, in order of time. Pure."""

from collections.abc import Iterable, Iterator

from schemas.result import ObjectSummary, Shot, Speech, TextSpan, TimelineEvent


def timeline(
    *, shots: Iterable[Shot], objects: Iterable[ObjectSummary], text: Iterable[TextSpan], speech: Speech | None
) -> tuple[TimelineEvent, ...]:
    """Return shots, objects, on-screen text and speech as events, by start, then end, then kind."""
    events = (*_shots(shots), *_objects(objects), *_text(text), *_speech(speech))
    return tuple(sorted(events, key=lambda event: (event.t_start_s, event.t_end_s, event.kind)))


def _shots(shots: Iterable[Shot]) -> Iterator[TimelineEvent]:
    for number, shot in enumerate(shots, start=1):
        yield TimelineEvent(t_start_s=shot.t_start_s, t_end_s=shot.t_end_s, kind="shot", label=f"shot {number}")


def _objects(objects: Iterable[ObjectSummary]) -> Iterator[TimelineEvent]:
    for thing in objects:
        label = f"{thing.label} x{thing.max_count}"
        yield TimelineEvent(t_start_s=thing.t_start_s, t_end_s=thing.t_end_s, kind="object", label=label)


def _text(spans: Iterable[TextSpan]) -> Iterator[TimelineEvent]:
    for span in spans:
        yield TimelineEvent(t_start_s=span.t_start_s, t_end_s=span.t_end_s, kind="text", label=span.text)


def _speech(speech: Speech | None) -> Iterator[TimelineEvent]:
    for segment in speech.segments if speech else ():
        yield TimelineEvent(t_start_s=segment.t_start_s, t_end_s=segment.t_end_s, kind="speech", label=segment.text)
