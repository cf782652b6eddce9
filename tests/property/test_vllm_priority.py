"""The number that orders vLLM's queue says the same as class and deadline."""

from hypothesis import given
from hypothesis import strategies as st

from llm_engine.backends.vllm_priority import CLASS_BITS, PriorityScale
from llm_engine.base import PriorityClass
from schemas.deadline import Deadline

classes = st.sampled_from(PriorityClass)
instants = st.one_of(st.just(float("inf")), st.floats(-1e6, 1e12))
offsets = st.floats(-1e6, 3e9)


@given(scale=offsets.map(PriorityScale), one=st.tuples(classes, instants), other=st.tuples(classes, instants))
def test_what_is_more_urgent_never_gets_the_larger_number(scale, one, other):
    sooner, later = sorted([one, other])
    assert scale.number(sooner[0], Deadline(sooner[1])) <= scale.number(later[0], Deadline(later[1]))


@given(scale=offsets.map(PriorityScale), at_s=instants, one=classes, other=classes)
def test_no_deadline_moves_a_request_into_another_class(scale, at_s, one, other):
    never = scale.number(one, Deadline.never())
    assert scale.number(one, Deadline(at_s)) <= never
    if other > one:
        assert never < scale.number(other, Deadline(at_s))


@given(scale=st.floats(1.6e9, 1.9e9).map(PriorityScale), at_s=st.floats(0, 1e6), priority=classes)
def test_two_milliseconds_are_told_apart(scale, at_s, priority):
    assert scale.number(priority, Deadline(at_s)) < scale.number(priority, Deadline(at_s + 0.002))


@given(scale=offsets.map(PriorityScale), at_s=instants, priority=classes)
def test_the_number_fits_a_json_number_and_64_bits(scale, at_s, priority):
    assert 0 <= scale.number(priority, Deadline(at_s)) < 1 << (CLASS_BITS + 2) < 1 << 53
