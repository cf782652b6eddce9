"""The planner over any clip, any budget and any machine."""

from hypothesis import given
from hypothesis import strategies as st

from pipeline.forecast import PRIORS_MS, forecast, pictures_decoded
from pipeline.latency import SAFE, TYPICAL, LatencyBook
from pipeline.planner import DECODE_SHARE, choose_plan, cut_down
from pipeline.plans import LADDER, spread
from schemas.media import ProbedMedia
from schemas.result import Media
from stages.media.sampling import plan_frames


@st.composite
def clips(draw) -> ProbedMedia:
    count = draw(st.integers(0, 400))
    times_s = tuple(sorted(draw(st.sets(st.integers(0, 4000), min_size=count and 1, max_size=count)) if count else ()))
    times_s = tuple(t / 40 - min(times_s) / 40 for t in times_s)
    keys_s = tuple(sorted({times_s[0], *draw(st.sets(st.sampled_from(times_s)))})) if times_s else ()
    audio_s = draw(st.floats(0, 900))
    media = Media(
        duration_s=max([audio_s, *times_s]),
        width=draw(st.integers(1, 7680)) if times_s else None,
        height=draw(st.integers(1, 4320)) if times_s else None,
        frame_count=len(times_s),
        has_audio=audio_s > 0,
    )
    return ProbedMedia(media=media, frame_times_s=times_s, keyframe_times_s=keys_s, audio_s=audio_s)


machines = st.fixed_dictionaries({key: st.floats(0.01, 2000) for key in PRIORS_MS}).map(LatencyBook)
budgets_ms = st.one_of(st.floats(0, 60_000), st.just(float("inf")))


@given(probed=clips(), latencies=machines, remaining_ms=budgets_ms, slots=st.integers(1, 64))
def test_there_is_always_a_plan_with_a_reason(probed, latencies, remaining_ms, slots):
    chosen = choose_plan("auto", probed=probed, remaining_ms=remaining_ms, slots=slots, latencies=latencies)
    assert chosen.plan in LADDER
    assert chosen.reason
    assert chosen.predicted_ms >= 0


@given(probed=clips(), latencies=machines, remaining_ms=budgets_ms, slots=st.integers(1, 64))
def test_no_more_thorough_plan_was_cheap_to_decode(probed, latencies, remaining_ms, slots):
    chosen = choose_plan("auto", probed=probed, remaining_ms=remaining_ms, slots=slots, latencies=latencies)
    for plan in LADDER[: LADDER.index(chosen.plan)]:
        assert forecast(plan, probed=probed, latencies=latencies).decoding_ms > DECODE_SHARE * remaining_ms


@given(probed=clips(), latencies=machines, slots=st.integers(1, 63))
def test_another_slot_never_makes_the_forecast_worse(probed, latencies, slots):
    for plan in LADDER:
        expected = forecast(plan, probed=probed, latencies=latencies)
        assert expected.end_ms(slots=slots + 1) <= expected.end_ms(slots=slots)


@given(probed=clips(), latencies=machines, slots=st.integers(1, 64), others_ms=st.floats(0, 10_000))
def test_what_is_needed_is_part_of_the_work_and_what_goes_one_after_another_part_of_that(
    probed, latencies, slots, others_ms
):
    for plan in LADDER:
        expected = forecast(plan, probed=probed, latencies=latencies)
        assert expected.needed_ms <= expected.work_ms
        assert expected.span_ms <= expected.needed_ms + expected.fusing_ms + 1e-6
        assert expected.span_ms <= expected.end_ms(slots=slots, others_ms=others_ms)


@given(probed=clips(), latencies=machines)
def test_the_cheapest_plan_is_what_is_needed_and_nothing_else(probed, latencies):
    cheapest = forecast(LADDER[-1], probed=probed, latencies=latencies)
    assert cheapest.needed_ms == cheapest.work_ms


@given(
    probed=clips(),
    latencies=machines,
    costs=st.lists(st.tuples(st.sampled_from(sorted(PRIORS_MS)), st.floats(0.01, 2000)), max_size=60),
)
def test_what_is_typical_is_never_more_than_what_is_promised(probed, latencies, costs):
    for key, ms in costs:
        latencies.observe(key, ms=ms, work=1)
    for key in PRIORS_MS:
        assert latencies.rate_ms(key, TYPICAL) <= latencies.rate_ms(key, SAFE)
    for plan in LADDER:
        typical = forecast(plan, probed=probed, latencies=latencies, quantile=TYPICAL)
        safe = forecast(plan, probed=probed, latencies=latencies, quantile=SAFE)
        assert typical.needed_ms <= safe.needed_ms
        assert typical.span_ms <= safe.span_ms
        assert typical.work_ms <= safe.work_ms


@given(
    probed=clips(),
    latencies=machines,
    wanted=st.sampled_from(LADDER),
    looked=st.fixed_dictionaries({name: st.integers(0, 8) for name in LADDER[0].shares}),
)
def test_no_rung_above_the_one_that_is_named_was_reached(probed, latencies, wanted, looked):
    chosen = choose_plan(wanted.name, probed=probed, remaining_ms=500, slots=2, latencies=latencies)
    done = cut_down(chosen, looked=looked).plan
    assert done.shares == looked
    rung = [plan.name for plan in LADDER].index(done.name)
    for plan in LADDER[:rung]:
        assert any(looked[name] < share for name, share in plan.shares.items())
    if all(looked.values()):
        assert all(looked[name] >= share for name, share in LADDER[rung].shares.items())


@given(probed=clips().filter(lambda clip: clip.has_video), count=st.integers(1, 16))
def test_at_least_the_shown_and_at_most_all_pictures_are_decoded(probed, count):
    sampling = plan_frames(probed, count=count, max_side_px=640)
    assert len(sampling.times_s) <= pictures_decoded(probed, sampling) <= len(probed.frame_times_s)


@given(count=st.integers(1, 20), of=st.integers(0, 20))
def test_spreading_takes_as_many_different_ones_as_there_are(count, of):
    chosen = spread(count, of=of)
    assert len(chosen) == min(count, of)
    assert all(0 <= index < of for index in chosen)
