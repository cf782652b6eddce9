"""What requests cost is learnt, forgotten in time, and used to turn away only who would be late."""

import pytest

from llm_engine.admission.forecast import HALF_LIFE_S, TRIAL_S, Forecast, Rate
from llm_engine.admission.tokens import estimated_tokens, prompt_text
from llm_engine.base import Chat, LLMRequest, Message, Prompt, Sampling
from schemas.deadline import Deadline
from schemas.errors import Overloaded


class Clock:
    now_s = 100.0

    def __call__(self) -> float:
        return self.now_s


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def rate(clock: Clock) -> Rate:
    return Rate(clock=clock)


def test_what_was_never_measured_costs_nothing(rate):
    assert rate.value == 0


def test_a_tiny_work_does_not_distort_the_cost_of_a_unit(rate):
    rate.observe(10, units=1000)
    rate.observe(1, units=1)
    assert rate.value == pytest.approx(0.011, rel=0.1)


def test_the_last_ten_observations_count(rate):
    for cost in (100,) * 20 + (1,) * 20:
        rate.observe(cost, units=1)
    assert 1 < rate.value < 15


def test_older_evidence_weighs_half_after_the_half_life(rate, clock):
    rate.observe(3, units=1)
    clock.now_s += HALF_LIFE_S
    rate.observe(1, units=1)
    kept = 0.9 * 0.5
    assert rate.value == pytest.approx((3 * kept + 1) / (kept + 1))


def test_evidence_that_has_faded_gives_way_to_the_calibration(rate, clock):
    rate.observe(2, units=1)
    rate.calibrate()
    for _ in range(30):
        rate.observe(50, units=1)
    assert rate.value > 40
    clock.now_s += 60
    assert rate.value == 2


def request(*, max_tokens: int = 100, data: str = "x" * 399) -> LLMRequest:
    return LLMRequest("r", Prompt("t", "", data), Deadline.never(), sampling=Sampling(max_tokens=max_tokens))


def test_a_text_costs_its_prompt_and_the_tokens_that_it_is_likely_to_have(clock):
    forecast = Forecast(clock=clock)
    forecast.prefill_s.observe(1, units=1000)
    forecast.decode_s.observe(1, units=100)
    forecast.fill.observe(20, units=100)
    assert forecast.generation_s(request()) == pytest.approx(101 * 0.001 + 100 * 0.2 * 0.01)


def test_who_has_others_ahead_waits_for_a_seat_each(clock):
    forecast = Forecast(clock=clock)
    forecast.held_s.observe(2, units=1)
    assert forecast.wait_s(ahead=3, seats=4) == 2


def test_the_late_are_told_when_to_come_again(clock):
    forecast = Forecast(clock=clock)
    forecast.held_s.observe(1, units=1)
    with pytest.raises(Overloaded) as raised:
        forecast.refuse_late(0.7, deadline=Deadline.after(0.5, clock=clock))
    assert raised.value.retry_after_s == pytest.approx(0.2)
    assert raised.value.retryable


def test_who_will_be_in_time_is_let_in(clock):
    forecast = Forecast(clock=clock)
    forecast.held_s.observe(1, units=1)
    forecast.refuse_late(0.5, deadline=Deadline.after(0.5, clock=clock))


def test_nobody_is_refused_without_a_deadline(clock):
    forecast = Forecast(clock=clock)
    forecast.held_s.observe(1, units=1)
    forecast.refuse_late(1e9, deadline=Deadline.never(clock=clock))


def test_a_forecast_that_learns_nothing_lets_one_in_against_it(clock):
    forecast = Forecast(clock=clock)
    forecast.held_s.observe(1, units=1)
    clock.now_s += TRIAL_S
    late = Deadline.after(0.5, clock=clock)
    forecast.refuse_late(9, deadline=late)
    with pytest.raises(Overloaded):
        forecast.refuse_late(9, deadline=late)


def test_a_chinese_text_has_more_tokens_than_an_english_one_of_as_many_characters():
    assert estimated_tokens("") == 1
    assert estimated_tokens("汤" * 100) == 76
    assert estimated_tokens("a" * 100) == 26
    assert estimated_tokens("\ud800") == 1


def test_all_that_a_model_reads_counts():
    chat = Chat((Message("system", "Be brief."), Message("user", "Hello?")))
    assert prompt_text(chat) == "Be brief.\nHello?"
    assert prompt_text(Prompt("t", "Sum up.", "soup")) == "Sum up.\nsoup"
