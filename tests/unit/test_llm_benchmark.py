import sys
from pathlib import Path

import pytest

from benchmarks.llm_contestants import Contestants, NotMeasured, Spec
from benchmarks.llm_findings import paired_ratio
from benchmarks.llm_greedy import agreeing
from benchmarks.llm_labels import begun_at
from benchmarks.llm_prompts import QUESTIONS, made_up_prompt
from benchmarks.llm_speed import BATCH, COMPARISONS, LLAMA_CPP, VLLM, Costs
from benchmarks.samples import Cost

OURS = "ours int8"


def costs(*, prefill_ms: float, step_ms: float) -> Costs:
    return Costs([Cost(0.0, prefill_ms)] * 3, [Cost(0.0, 1.0)] * 3, [Cost(0.0, step_ms)] * 3)


def judged(found: dict[str, Costs], absent: dict[str, str]) -> list[bool | None]:
    return [comparison.goal(OURS, found, absent).met for comparison in COMPARISONS]


def test_a_ratio_pairs_the_rounds_so_that_a_slow_round_changes_nothing():
    assert paired_ratio([1.0, 10.0, 1.0], [2.0, 20.0, 2.0]) == 0.5


def test_a_goal_is_met_or_missed_by_cpu_time():
    fast, slow = costs(prefill_ms=100, step_ms=16), costs(prefill_ms=200, step_ms=40)
    assert judged({OURS: fast, LLAMA_CPP: slow, VLLM: slow}, {}) == [True, True, True]
    assert judged({OURS: slow, LLAMA_CPP: slow, VLLM: fast}, {}) == [False, False, False]


def test_a_goal_without_its_rival_is_not_measured_and_never_met():
    found = {OURS: costs(prefill_ms=1, step_ms=1), LLAMA_CPP: costs(prefill_ms=9, step_ms=9)}
    assert judged(found, {VLLM: "it is not here"}) == [True, True, None]


def test_tokens_are_counted_over_the_whole_batch():
    assert costs(prefill_ms=1, step_ms=20).tokens_a_cpu_s() == [BATCH * 50.0] * 3


def test_answers_agree_up_to_the_first_token_that_differs():
    assert agreeing([1, 2, 3], [1, 2, 4]) == 2
    assert agreeing([1, 2], [1, 2, 4]) == 2
    assert agreeing([], [1]) == 0


def test_a_text_begun_at_another_word_keeps_its_words():
    assert begun_at("one two three", 4) == "two three one"
    assert begun_at("从头到尾", 1) == "头到尾从"


def test_prompts_are_the_same_for_everybody_and_new_each_round():
    assert made_up_prompt(8, seed="1") == made_up_prompt(8, seed="1") != made_up_prompt(8, seed="2")
    assert len(set(QUESTIONS)) == 20


@pytest.mark.parametrize(
    ("spec", "reason"),
    [
        (Spec(Path("/nowhere/python"), "benchmarks.llm_tokens", {}, "make it"), "missing .make it."),
        (Spec(Path(sys.executable), "benchmarks.no_such_module", {}), "No module named"),
    ],
)
def test_a_contestant_that_cannot_start_says_why_every_time(spec: Spec, reason: str):
    with Contestants({"somebody": spec}) as contestants:
        for _ in range(2):
            with pytest.raises(NotMeasured, match=reason):
                contestants.get("somebody")
