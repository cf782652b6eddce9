"""What of the speech was written down, and which stretches were not."""

import pytest

from pipeline.heard import heard
from schemas.perception import SpeechSpan
from stages.transcribe import HeardTranscript

VOICE = (SpeechSpan(1, 4), SpeechSpan(5, 9))


def piece(start_s: float, end_s: float, *, complete: bool = True) -> HeardTranscript:
    return HeardTranscript(
        "en", (), "fake", speech_s=end_s - start_s, complete=complete, span=SpeechSpan(start_s, end_s)
    )


@pytest.mark.parametrize(
    ("pieces", "unwritten"),
    [
        ([], [(1, 4), (5, 9)]),
        ([piece(1, 4)], [(5, 9)]),
        ([piece(5, 9)], [(1, 4)]),
        ([piece(1, 4), piece(7, 9)], [(5, 7)]),
        ([piece(7, 9), piece(0.5, 4.5)], [(5, 7)]),
        ([piece(2, 3)], [(1, 2), (3, 4), (5, 9)]),
        ([piece(1, 3.98), piece(5, 9)], []),
        ([piece(1, 9)], []),
    ],
    ids=["none", "first", "last", "ends", "out of order", "inside", "rounding", "across a pause"],
)
def test_what_no_piece_covers_is_not_written_down(pieces, unwritten):
    found = heard(VOICE, pieces)
    assert [(span.start_s, span.end_s) for span in found.unwritten] == unwritten
    assert found.voice_s == 7
    assert found.written_s == pytest.approx(7 - sum(end - start for start, end in unwritten))


def test_speech_that_was_only_named_is_not_written_down():
    assert heard(VOICE, [piece(1, 9, complete=False)]).share == 0


def test_where_nobody_speaks_nothing_is_missing():
    found = heard((), ())
    assert (found.voice_s, found.written_s, found.unwritten) == (0, 0, ())
