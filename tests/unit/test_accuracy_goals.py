"""The accuracy report: how single scores become kept or broken promises."""

from benchmarks.captions import CaptionScore
from benchmarks.report import InTime, both_goals
from benchmarks.scoring import ClipScore, Goal, goals
from benchmarks.sights import ObjectScore
from benchmarks.words import Errors, Held, SpeechScore


def clip(**judged: object) -> ClipScore:
    return ClipScore(name="a.mp4", status="complete", plan="best", latency_ms=1.0, heard="", **judged)  # type: ignore[arg-type]


def only_goal(*scores: ClipScore) -> Goal:
    (goal,) = goals(scores)
    return goal


def test_what_no_clip_can_tell_is_not_claimed() -> None:
    assert goals([clip()]) == []


def test_one_clip_with_invented_words_is_one_too_many() -> None:
    assert only_goal(clip(invented_words=False)).met
    assert not only_goal(clip(invented_words=False), clip(invented_words=True)).met


def test_word_errors_are_summed_over_clips() -> None:
    short = clip(speech=SpeechScore(Errors(1, 4), None))
    long = clip(speech=SpeechScore(Errors(0, 6), None))
    assert only_goal(short, long).met
    assert not only_goal(short).met


def test_mandarin_has_its_own_bound() -> None:
    assert only_goal(clip(speech=SpeechScore(None, Errors(1, 4)))).met
    assert not only_goal(clip(speech=SpeechScore(None, Errors(2, 4)))).met


def test_eighty_five_percent_of_the_objects_must_be_found() -> None:
    assert only_goal(clip(objects=ObjectScore(("person",) * 17, ("cup",) * 3, None))).met
    assert not only_goal(clip(objects=ObjectScore(("person",) * 16, ("cup",) * 4, None))).met


def test_one_false_label_a_clip_is_allowed_on_average() -> None:
    quiet, noisy = (clip(objects=ObjectScore((), (), labels)) for labels in ((), ("vase", "clock")))
    assert only_goal(quiet, noisy).met
    assert not only_goal(noisy).met


def test_captions_scenes_and_languages_count_as_shares() -> None:
    assert not only_goal(clip(captions=CaptionScore(("one",) * 8, ("two",)))).met
    assert only_goal(*[clip(scene_sensible=True)] * 7, *[clip(scene_sensible=False)] * 3).met
    assert not only_goal(clip(language_right=True), clip(language_right=False)).met


def test_what_is_in_time_stands_beside_what_is_right_without_a_deadline() -> None:
    patient, hasty = (
        clip(speech=SpeechScore(Errors(missing, 4), None, Held(4 - missing, 4), None)) for missing in (0, 2)
    )
    headings, *rows = both_goals([patient], goals([patient]), InTime(500, [hasty], goals([hasty])))
    assert headings[2:] == ("no deadline", "met", "500 ms", "met at 500 ms")
    assert rows == [
        ("English word error rate", "<= 0.10", "0.000 (0 of 4)", "yes", "0.500 (2 of 4)", "NO"),
        ("English words held", "", "100.0% (4 of 4)", "", "50.0% (2 of 4)", ""),
    ]


def test_a_goal_that_no_deadline_touches_has_nothing_beside_it() -> None:
    memory = Goal("memory", "<= 1.50 GiB", "1.20 GiB", met=True)
    assert both_goals([], [memory], InTime(500, [], []))[1] == ("memory", "<= 1.50 GiB", "1.20 GiB", "yes", "-", "-")
