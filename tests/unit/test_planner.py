"""The planner's choices on a machine whose costs are known."""

import pytest

from pipeline.forecast import PRIORS_MS, decode_work, forecast, pictures_decoded
from pipeline.latency import TYPICAL, LatencyBook, Line
from pipeline.planner import choose_plan, cut_down
from pipeline.plans import LADDER, Plan, plan_named, plan_names
from schemas.errors import ConfigurationError
from schemas.media import ProbedMedia, SamplingPlan
from schemas.result import Media


def clip(*, frames: int = 250, audio_s: float = 10.0) -> ProbedMedia:
    media = Media(duration_s=10.0, width=640, height=360, fps=25, frame_count=frames, has_audio=audio_s > 0)
    return ProbedMedia(media=media, frame_times_s=tuple(i / 25 for i in range(frames)), audio_s=audio_s)


def choose(remaining_ms: float, *, wanted: str = "auto", probed: ProbedMedia | None = None, slots: int = 2):
    book = LatencyBook(PRIORS_MS)
    return choose_plan(wanted, probed=probed or clip(), remaining_ms=remaining_ms, slots=slots, latencies=book)


def predict_ms(plan: Plan, *, probed: ProbedMedia, slots: int, latencies: LatencyBook) -> float:
    return forecast(plan, probed=probed, latencies=latencies).end_ms(slots=slots)


def test_without_a_deadline_the_most_thorough_plan_is_taken():
    assert choose(float("inf")).plan.name == "best"


def test_less_time_never_gives_a_more_thorough_plan():
    chosen = [LADDER.index(choose(ms).plan) for ms in (5000, 1000, 700, 500, 400, 300, 200, 100, 1)]
    assert chosen == sorted(chosen)
    assert chosen[0] == 0
    assert chosen[-1] == len(LADDER) - 1


def test_the_chosen_plan_fits_by_its_own_prediction():
    chosen = choose(600)
    assert chosen.predicted_ms <= 600
    assert "600 ms" in chosen.reason


def test_when_nothing_fits_as_little_as_possible_is_decoded_and_the_reason_says_so():
    chosen = choose(1)
    assert not chosen.fits
    assert chosen.plan in LADDER[-2:]
    assert "first words first, and what fits" in chosen.reason


def test_beside_other_jobs_a_clip_may_not_be_whole_but_its_frames_are_there():
    ask = {"probed": clip(), "remaining_ms": 600, "slots": 2, "latencies": LatencyBook(PRIORS_MS)}
    alone, crowded = choose_plan("auto", **ask), choose_plan("auto", others_ms=900, **ask)
    assert (alone.fits, crowded.fits) == (True, False)
    assert crowded.plan is alone.plan


def test_a_plan_asked_for_by_name_is_taken_even_if_it_cannot_fit():
    assert choose(1, wanted="best").plan.name == "best"


def test_an_unknown_plan_is_refused_and_the_known_ones_are_named():
    with pytest.raises(ConfigurationError) as refused:
        choose(1, wanted="turbo")
    assert all(name in str(refused.value) for name in plan_names())


def test_more_slots_never_make_the_prediction_longer():
    book = LatencyBook(PRIORS_MS)
    for plan in LADDER:
        times = [predict_ms(plan, probed=clip(), slots=slots, latencies=book) for slots in (1, 2, 4, 64)]
        assert times == sorted(times, reverse=True)


def test_silence_and_missing_pictures_cost_nothing():
    book = LatencyBook(PRIORS_MS)
    both = predict_ms(LADDER[0], probed=clip(), slots=1, latencies=book)
    mute = predict_ms(LADDER[0], probed=clip(audio_s=0), slots=1, latencies=book)
    sound = predict_ms(LADDER[0], probed=clip(frames=0), slots=1, latencies=book)
    assert mute < both
    assert sound < both
    assert mute + sound < both + 2 * PRIORS_MS["text"] + 2 * PRIORS_MS["fuse"]


def test_where_decoding_became_slow_fewer_frames_are_decoded():
    book = LatencyBook(PRIORS_MS)
    quick = choose_plan("auto", probed=clip(), remaining_ms=600, slots=2, latencies=book).plan
    for _ in range(64):
        book.observe("frames", ms=90, work=1)
    slow = choose_plan("auto", probed=clip(), remaining_ms=600, slots=2, latencies=book)
    assert LADDER.index(slow.plan) > LADDER.index(quick)
    assert "decoding more frames would take too long" in slow.reason


def sampled(*times_s: float, strategy: str = "forward") -> SamplingPlan:
    return SamplingPlan(times_s, strategy, 640)


def test_every_picture_up_to_the_last_target_is_decoded_once():
    one_shot = ProbedMedia(
        media=Media(duration_s=10, width=1000, height=1000, frame_count=250),
        frame_times_s=tuple(i / 25 for i in range(250)),
        keyframe_times_s=(0.0,),
    )
    assert pictures_decoded(one_shot, sampled(2.0, 4.0)) == 101  # 0 to 100
    assert pictures_decoded(one_shot, sampled(0.0)) == 1


def test_a_later_key_frame_saves_what_lies_before_it():
    two_shots = ProbedMedia(
        media=Media(duration_s=10, width=1000, height=1000, frame_count=250),
        frame_times_s=tuple(i / 25 for i in range(250)),
        keyframe_times_s=(0.0, 8.0),
    )
    assert pictures_decoded(two_shots, sampled(1.0, 9.0)) == 26 + 26


def test_key_frames_are_decoded_alone():
    assert pictures_decoded(clip(), sampled(0.0, 2.0, 4.0, strategy="keyframes")) == 3


def test_decoding_more_pictures_is_more_work():
    work = [decode_work(clip(), sampled(*times_s)) for times_s in ((0.0,), (2.0,), (2.0, 4.0), (2.0, 4.0, 9.0))]
    assert work == sorted(set(work))


def test_a_decode_that_takes_too_long_alone_is_not_made_to_fit_by_more_slots():
    long_shot = ProbedMedia(
        media=Media(duration_s=20, width=1920, height=1080, fps=30, frame_count=600),
        frame_times_s=tuple(i / 30 for i in range(600)),
        keyframe_times_s=(0.0,),
    )
    assert choose(500, probed=long_shot, slots=64).plan.key_frames_only


def test_a_long_shot_of_many_pixels_is_skimmed_by_its_key_frames():
    screencast = ProbedMedia(
        media=Media(duration_s=20, width=3840, height=2160, fps=30, frame_count=600),
        frame_times_s=tuple(i / 30 for i in range(600)),
        keyframe_times_s=(0.0, 250 / 30, 500 / 30),
    )
    assert choose(500, probed=screencast).plan in LADDER[-2:]


def test_long_speech_is_cut_and_the_pictures_are_not_looked_at_less_for_it():
    talk = choose(500, probed=clip(audio_s=60.0))
    assert "speech" in talk.reason
    assert talk.plan == choose(500, probed=clip(audio_s=0.0)).plan


def looked(ocr: int, detect: int, unsafe: int, scene: int) -> dict[str, int]:
    return {"ocr": ocr, "detect": detect, "unsafe": unsafe, "scene": scene}


@pytest.mark.parametrize(
    ("done", "rung"),
    [
        (looked(8, 8, 4, 3), "thorough"),
        (looked(5, 6, 3, 3), "thorough"),
        (looked(8, 5, 4, 4), "standard"),
        (looked(2, 8, 4, 4), "lean"),
        (looked(8, 8, 1, 4), "lean"),
        (looked(8, 3, 4, 4), "glance"),
        (looked(1, 1, 1, 1), "glance"),
    ],
)
def test_a_plan_that_was_cut_down_has_the_name_of_the_rung_that_all_stages_reached(done, rung):
    chosen = choose(float("inf"))
    plan = cut_down(chosen, looked=done).plan
    assert plan.name == rung
    assert plan.shares == done
    assert (plan.asr, plan.max_side_px) == (chosen.plan.asr, chosen.plan.max_side_px)


def test_a_plan_that_was_cut_down_says_so_and_keeps_what_was_predicted_of_it():
    chosen = choose(float("inf"))
    done = cut_down(chosen, looked=looked(1, 2, 1, 1))
    assert "'best', cut down" in done.reason
    assert chosen.reason in done.reason
    assert done.predicted_ms == chosen.predicted_ms


def test_whoever_did_not_even_look_once_is_counted_and_the_cheapest_plan_named():
    done = cut_down(choose(float("inf")), looked=looked(0, 8, 4, 4))
    assert (done.plan.name, done.plan.ocr_frames) == ("glance", 0)


def test_needed_of_a_plan_is_one_look_of_every_stage_beside_all_listening():
    book = LatencyBook(PRIORS_MS)
    best, glance = (forecast(plan_named(name), probed=clip(), latencies=book) for name in ("best", "glance"))
    once_ms = sum(PRIORS_MS[key] for key in ("ocr", "detect", "unsafe", "scene"))
    more_ms = 7 * PRIORS_MS["ocr"] + 7 * PRIORS_MS["detect"] + 3 * PRIORS_MS["unsafe"] + 3 * PRIORS_MS["scene"]
    assert best.work_ms - best.needed_ms == pytest.approx(more_ms)
    assert glance.needed_ms == glance.work_ms
    assert best.glancing_ms - (best.looking_chain_ms - PRIORS_MS["detect"]) == pytest.approx(once_ms)


def test_a_stage_that_is_sometimes_slow_is_promised_late_and_typically_quick():
    book = LatencyBook(PRIORS_MS)
    for ms in (10, 10, 10, 100):
        book.observe("ocr", ms=ms, work=1)
    promised = forecast(LADDER[0], probed=clip(), latencies=book)
    typical = forecast(LADDER[0], probed=clip(), latencies=book, quantile=TYPICAL)
    assert promised.looking_ms - typical.looking_ms == pytest.approx(LADDER[0].ocr_frames * 90)
    assert promised.listening_ms == typical.listening_ms


def test_no_sound_is_not_a_window_of_speech():
    book = LatencyBook({**PRIORS_MS, "transcribe:en": Line(1.0, 10_000.0)})
    mute = forecast(LADDER[0], probed=clip(audio_s=0), latencies=book)
    assert mute.listening_ms == PRIORS_MS["sentiment"] + PRIORS_MS["text"]
    assert forecast(LADDER[0], probed=clip(audio_s=0.1), latencies=book).listening_ms > 10_000
