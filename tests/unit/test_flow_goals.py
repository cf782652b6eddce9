"""The latency benchmark: words in time, conditions, and how single runs become kept or broken promises."""

from pathlib import Path

import pytest

from benchmarks.flow_child import BUDGETED, OURS, Measurement
from benchmarks.flow_clips import FlowClip, truth_of
from benchmarks.flow_conditions import Condition, NotHere, conditions
from benchmarks.flow_goals import SCRIPT, flow_goals
from benchmarks.flow_words import ENGLISH, MANDARIN, WordClass, held_in, word_class
from benchmarks.llm_findings import Goal
from benchmarks.media import Clip
from benchmarks.samples import Cost, Sample
from benchmarks.words import Held

TALK = FlowClip("talk", Path("talk.mp4"), "en", 11.0, "ask not what your country")
LECTURE = FlowClip("lecture", Path("lecture.mp4"), "zh", 5.6, "欢迎大家来")
CLIPS = {clip.name: clip for clip in (TALK, LECTURE)}

TWO = frozenset({0, 1})
AVX512_MACHINE = ("avx2", "avx512f")


def answer(clip: str, heard: str, *, wall_ms: float = 450, detect: int = 4, ocr: int = 2) -> Sample:
    return Sample(BUDGETED, clip, Cost(wall_ms, 700), heard=heard, looks={"detect": detect, "ocr": ocr})


def whole(clip: str = "talk", *, wall_ms: float = 600, cpu_ms: float = 1100, chain_ms: float = 400) -> Sample:
    return Sample(OURS, clip, Cost(wall_ms, cpu_ms), heard="ask not what your country", chain_ms=chain_ms)


def measured(*samples: Sample, isa: str = "avx2", cores: frozenset[int] = TWO) -> Measurement:
    return Measurement(Condition("native", "The machine as it is", isa, cores), "", 0.0, list(samples))


def goal(found: Measurement, *words: str) -> Goal:
    """Return the one goal whose name has all of ``words``."""
    (one,) = (g for g in flow_goals([found], CLIPS, absent={}) if all(word in g.name for word in words))
    return one


def talk(heard: str, **more: float) -> Measurement:
    return measured(answer("talk", heard, **more), whole())  # type: ignore[arg-type]


def test_words_of_all_answers_of_a_class_add_up() -> None:
    answers = [answer("talk", "Ask not what your country."), answer("talk", "ask not"), answer("lecture", "欢迎大家")]
    held = held_in(answers, CLIPS)
    assert held == {WordClass(ENGLISH): Held(7, 10), WordClass(MANDARIN): Held(4, 5)}


def test_a_clip_whose_words_the_manifest_does_not_tell_is_in_no_class() -> None:
    assert word_class(FlowClip("cut", Path("cut.mp4"), "en", 5.0)) is None


@pytest.mark.parametrize(("language", "seconds"), [("en", 11.5), ("zh", 4.3), ("zh", 6.5), ("fr", 5.0)])
def test_a_clip_that_nothing_was_promised_for_is_in_no_class(language: str, seconds: float) -> None:
    assert word_class(FlowClip("other", Path("other.mp4"), language, seconds, "words")) is None


def test_words_of_different_sets_are_kept_apart() -> None:
    mine, given = (FlowClip(name, Path(name), "en", 5.0, "ask not", set=name) for name in ("development", "given"))
    held = held_in([answer("development", "ask not"), answer("given", "")], {"development": mine, "given": given})
    assert [total.share for total in held.values()] == [1.0, 0.0]


def test_the_truth_is_that_of_the_whole_sound_or_unknown() -> None:
    sound = Clip("a.wav", Path("a.wav"), has_video=False, has_audio=True, transcript="a b", language="en", duration_s=3)
    assert truth_of(sound, seconds=5.0) == "a b"
    assert truth_of(sound, seconds=2.5) is None


def test_english_must_be_there_but_for_one_word_in_twenty_on_two_avx2_cores() -> None:
    assert goal(talk("ask not what your country"), ENGLISH, "AVX2").met
    assert not goal(talk("ask not what your"), ENGLISH, "AVX2").met


def test_mandarin_may_miss_two_characters_of_five_on_two_avx2_cores() -> None:
    assert goal(measured(answer("lecture", "欢迎大"), whole("lecture")), MANDARIN, "AVX2").met
    assert not goal(measured(answer("lecture", "欢迎"), whole("lecture")), MANDARIN, "AVX2").met


def test_with_wider_vector_units_every_english_word_must_be_there() -> None:
    found = measured(answer("talk", "ask not what your"), whole(), isa="avx512")
    assert goal(found, ENGLISH, "AVX-512").met is False
    assert goal(found, ENGLISH, "AVX2").met is None


def test_one_core_must_have_half_of_the_words() -> None:
    one_core = measured(answer("talk", "ask not what"), whole(), cores=frozenset({1}))
    assert goal(one_core, ENGLISH, "one core").met
    assert goal(talk("ask not what"), ENGLISH, "one core").met is None


def test_what_was_not_measured_says_why_and_is_not_missed() -> None:
    goals = flow_goals([], CLIPS, absent={"avx2": "nothing wider than AVX2 here", "one-core": "not asked for"})
    assert {one.met for one in goals} == {None}
    assert {"nothing wider than AVX2 here", "not asked for"} <= {one.got for one in goals}


def test_one_answer_without_words_is_one_too_many() -> None:
    assert goal(talk("ask"), "without any word").met
    assert not goal(talk(" "), "without any word").met


def test_with_one_core_there_is_no_idle_core_that_could_have_heard_something() -> None:
    found = measured(answer("talk", ""), whole(), cores=frozenset({0}))
    assert not [one for one in flow_goals([found], CLIPS, absent={}) if "without any word" in one.name]


def test_one_late_answer_in_a_hundred_may_be_but_not_one_in_ninety_nine() -> None:
    punctual, late = answer("talk", "ask"), answer("talk", "ask", wall_ms=501)
    assert goal(measured(*[punctual] * 99, late, whole()), "p99").met
    assert not goal(measured(*[punctual] * 98, late, whole()), "p99").met


def test_as_much_must_be_looked_at_as_the_lean_plan_does() -> None:
    assert goal(talk("ask"), "looked at").met
    assert not goal(talk("ask", ocr=1), "looked at").met


def test_a_clip_may_take_a_little_longer_than_its_cpu_time_over_all_cores_or_its_chain() -> None:
    assert goal(measured(answer("talk", "ask"), whole(wall_ms=630, cpu_ms=1100)), "bound").met
    assert not goal(measured(answer("talk", "ask"), whole(wall_ms=640, cpu_ms=1100)), "bound").met
    assert goal(measured(answer("talk", "ask"), whole(wall_ms=640, cpu_ms=1100, chain_ms=600)), "bound").met


def test_the_script_must_be_three_times_as_slow_and_no_better_at_words() -> None:
    def beside(wall_ms: float, heard: str) -> Measurement:
        script = Sample(SCRIPT, "talk", Cost(wall_ms, wall_ms), heard=heard)
        return measured(answer("talk", "ask"), whole(), script)

    assert goal(beside(1800, "ask not"), "script").met
    assert not goal(beside(1700, "ask not"), "script").met
    assert goal(talk("ask"), "script").met is None


def test_a_machine_with_avx512_is_measured_three_times() -> None:
    native, avx2, one_core = conditions(("native", "avx2", "one-core"), units=AVX512_MACHINE, cores=TWO, environment={})
    assert isinstance(native, Condition)
    assert isinstance(avx2, Condition)
    assert isinstance(one_core, Condition)
    assert (native.isa, native.cores, dict(native.environment)) == ("avx512", TWO, {})
    assert (avx2.isa, avx2.cores) == ("avx2", TWO)
    assert (one_core.isa, one_core.cores) == ("avx512", frozenset({1}))


def test_what_a_machine_is_anyway_is_not_measured_twice() -> None:
    _, avx2, one_core = conditions(
        ("native", "avx2", "one-core"), units=("avx2",), cores=frozenset({0}), environment={}
    )
    assert isinstance(avx2, NotHere)
    assert isinstance(one_core, NotHere)


def test_a_machine_that_is_held_to_avx2_already_counts_as_such() -> None:
    held = {"MKL_ENABLE_INSTRUCTIONS": "AVX2"}
    (native,) = conditions(("native",), units=AVX512_MACHINE, cores=TWO, environment=held)
    assert isinstance(native, Condition)
    assert native.isa == "avx2"
