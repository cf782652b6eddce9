"""A partial answer says in plain words what is missing and why."""

import pytest

from pipeline.analyze import STAGES
from pipeline.gaps import gaps, missing, rests_on
from schemas.errors import WarningCode
from schemas.result import (
    BasedOn,
    Basis,
    Coverage,
    Detection,
    FusedResult,
    Media,
    ResultStatus,
    Speech,
    SpeechSegment,
    StageReport,
    StageStatus,
    WarningInfo,
    Witness,
)

LATE, FAILED, SKIPPED = StageStatus.TIMED_OUT, StageStatus.FAILED, StageStatus.SKIPPED

CAR = Detection(label="car", score=0.9, box=(0, 0, 1, 1), box_px=(0, 0, 9, 9), t_s=1)


def result(*, ended: dict[str, StageStatus] | None = None, codes: tuple[WarningCode, ...] = (), **found) -> FusedResult:
    reports = {name: StageReport(status=(ended or {}).get(name, StageStatus.OK)) for name in STAGES}
    warnings = tuple(WarningInfo(code=code, message="") for code in codes)
    fields = {"coverage": Coverage(frames_analyzed=4), "media": Media(duration_s=12)} | found
    return FusedResult(
        pipeline_version="0",
        job_id="j",
        video_id="v",
        status=ResultStatus.PARTIAL,
        stages=reports,
        warnings=warnings,
        **fields,
    )


def said(*spans: tuple[float, float]) -> Speech:
    return Speech(segments=tuple(SpeechSegment(t_start_s=a, t_end_s=b, text="words", score=0.9) for a, b in spans))


def unwritten(*spans: tuple[float, float], of_s: float = 11.0) -> Coverage:
    lost_s = sum(end_s - start_s for start_s, end_s in spans)
    return Coverage(frames_analyzed=4, audio_s=12, voice_s=of_s, speech_s=of_s - lost_s, unwritten=spans)


@pytest.mark.parametrize(
    ("coverage", "speech", "words"),
    [
        (unwritten((9, 12)), said((0, 4), (4, 9)), "the last 3 s of speech were not written down in time"),
        (unwritten((5, 7), (8, 10.4)), said((0, 4)), "the last 4.4 s of speech were not written down in time"),
        (unwritten((0, 2.5)), said((2.6, 9)), "the first 2.5 s of speech were not written down in time"),
        (unwritten((4, 7)), said((0, 4), (7, 9)), "3 s of speech (from 4 to 7 s) were not written down in time"),
        (
            unwritten((1, 2), (6, 8.5)),
            said((0, 1), (3, 5), (9, 10)),
            "3.5 s of speech (from 1 to 2 s and from 6 to 8.5 s) were not written down in time",
        ),
        (unwritten((0, 11)), None, "none of the 11 s of speech was written down in time"),
        (Coverage(frames_analyzed=4), None, "the speech was not written down in time"),
    ],
    ids=["last", "last two pieces", "first", "middle", "two", "all", "not known"],
)
def test_it_is_said_which_speech_was_not_written_down(coverage: Coverage, speech: Speech | None, words: str):
    assert missing(result(ended={"transcribe": LATE}, coverage=coverage, speech=speech)) == (words,)


@pytest.mark.parametrize(
    ("ended", "found", "words"),
    [
        ({"ocr": LATE}, {}, "captions were not read in time"),
        ({"ocr": FAILED}, {}, "captions were not read because of a fault"),
        ({"unsafe": LATE}, {}, "the pictures were not checked for unsafe content in time"),
        (
            {"unsafe": LATE},
            {"based_on": BasedOn(safety=Basis(read={Witness.PICTURES: 0.5}))},
            "not all pictures were checked for unsafe content in time",
        ),
        ({"detect": LATE}, {}, "objects were not looked for in time"),
        ({"detect": LATE}, {"detections": (CAR,)}, "not every picture was searched for objects in time"),
        ({"scene": LATE}, {}, "the place was not recognised in time"),
        ({"audio": FAILED}, {}, "the sound was not decoded because of a fault"),
        ({"vad": LATE}, {}, "the sound was not searched for speech in time"),
        ({"text": LATE}, {}, "the words were not understood in time"),
        ({"sentiment": LATE}, {}, "the mood was not judged in time"),
    ],
)
def test_each_stage_says_in_plain_words_what_it_has_not_done(ended, found, words):
    assert missing(result(ended=ended, **found)) == (words,)


@pytest.mark.parametrize(
    ("ended", "words"),
    [
        (dict.fromkeys(("audio", "vad", "transcribe", "text", "sentiment"), LATE), "the sound was not decoded in time"),
        ({"audio": FAILED, "vad": SKIPPED, "transcribe": SKIPPED}, "the sound was not decoded because of a fault"),
        (dict.fromkeys(("ocr", "text", "sentiment"), LATE), "captions were not read in time"),
        ({"detect": LATE, "confirm": LATE}, "objects were not looked for in time"),
    ],
)
def test_only_the_cause_is_told_and_not_what_follows_from_it(ended, words):
    assert missing(result(ended=ended)) == (words,)


def test_without_a_picture_nothing_is_said_of_each_way_of_looking():
    late = dict.fromkeys(("frames", "detect", "scene", "unsafe", "ocr"), LATE)
    assert missing(result(ended=late, coverage=Coverage())) == ("the pictures were not decoded in time",)


def test_words_that_are_there_but_were_not_understood_are_named():
    lacking = BasedOn(safety=Basis(missing=(Witness.CAPTIONS, Witness.TITLE)))
    assert missing(result(ended={"text": LATE}, based_on=lacking)) == (
        "the captions and the title were not wholly understood in time",
    )


@pytest.mark.parametrize(
    ("found", "words"),
    [
        (
            {"codes": (WarningCode.TRUNCATED,), "coverage": Coverage(fraction=0.88)},
            "the file ends early: only 88 % of it is there",
        ),
        ({"codes": (WarningCode.TRUNCATED,)}, "the file ends early"),
        ({"coverage": Coverage(packets_damaged=3)}, "parts of the file are damaged"),
        ({"codes": (WarningCode.AUDIO_UNDECODABLE,)}, "the sound could not be decoded"),
        (
            {"codes": (WarningCode.AUDIO_CUT,), "coverage": Coverage(audio_s=10)},
            "only the first 10 s of the sound were listened to",
        ),
    ],
)
def test_what_the_file_lacks_is_told(found, words):
    assert missing(result(**found)) == (words,)


def test_what_nobody_asked_for_is_not_missing_but_known_not_to_be_there():
    given = result(ended=dict.fromkeys(("ocr", "audio", "vad", "transcribe"), SKIPPED))
    assert missing(given) == ()
    assert [gap.words for gap in gaps(given)] == [
        "captions were not read, as nobody asked for it",
        "the speech was not written down, as nobody asked for it",
    ]


@pytest.mark.parametrize("status", [LATE, FAILED])
def test_no_stage_is_named(status: StageStatus):
    told = [words.split() for name in STAGES for words in missing(result(ended={name: status}))]
    assert not {word for words in told for word in words} & (set(STAGES) - {"unsafe"})


def test_a_whole_answer_lacks_nothing():
    assert gaps(result()) == ()


@pytest.mark.parametrize(
    ("read", "words"),
    [
        ({}, ""),
        ({"title": 1}, "the title"),
        ({"pictures": 1, "title": 1, "speech": 0.7}, "the pictures, the title and 70 % of the speech"),
        ({"speech": 0.999}, "99 % of the speech"),
    ],
)
def test_what_a_verdict_rests_on_is_told_in_words(read, words):
    assert rests_on(Basis(read=read)) == words
