"""What a plan will take for a clip, from what each stage has cost on this machine so far. Pure."""

from bisect import bisect_left, bisect_right
from dataclasses import dataclass

from pipeline.latency import LatencyBook
from pipeline.plans import Plan, sample
from schemas.media import ProbedMedia, SamplingPlan

PRIORS_MS: dict[str, float] = {
    # Milliseconds a unit on one core before anything was measured; start-up calibration replaces most of them at once.
    "frames": 1.5,  # a megapixel decoded
    "detect": 20.0,  # a frame
    "confirm": 40.0,  # a clip
    "scene": 12.0,  # a frame
    "unsafe": 24.0,
    "ocr": 40.0,
    "audio": 3.0,  # a second of sound
    "vad": 2.0,
    "transcribe:auto": 30.0,
    "transcribe:tiny.en": 24.0,
    "sentiment": 2.0,  # a text
    "text": 5.0,
    "llm": 50.0,  # a step of the language model; best effort, and so no part of a forecast
    "wake": 7.0,  # lateness of the event loop at a cutoff
    "fuse": 5.0,  # a clip
}


@dataclass(frozen=True, slots=True)
class Forecast:
    """Milliseconds of CPU on one core, each the sum of its stages' p95.

    ``listening_ms``: the chain from sound to meaning. ``looking_ms``: all that is done with pictures;
    ``looking_chain_ms``: that part of it which must happen one after another. ``fusing_ms`` comes last.
    """

    listening_ms: float
    looking_ms: float
    looking_chain_ms: float
    fusing_ms: float

    @property
    def work_ms(self) -> float:
        """All of it but fusion."""
        return self.listening_ms + self.looking_ms

    def end_ms(self, *, slots: int, others_ms: float = 0.0) -> float:
        """Return when the result is due, by the classic bound on a schedule: ``max(longest chain, work / slots)``.

        ``others_ms``: what other jobs still have to do on the same slots.
        """
        return max(self.listening_ms, self.looking_chain_ms, (self.work_ms + others_ms) / slots) + self.fusing_ms


def forecast(plan: Plan, *, probed: ProbedMedia, latencies: LatencyBook) -> Forecast:
    """Return what ``plan`` will take for a clip."""
    heard = ("audio", "vad", f"transcribe:{plan.asr}")
    heard_ms = sum(latencies.predict_ms(key, work=probed.audio_s) for key in heard)
    read_ms = sum(latencies.predict_ms(key, work=1) for key in ("sentiment", "text"))
    looking_ms, looking_chain_ms = _looking(plan, probed, latencies) if probed.has_video else (0.0, 0.0)
    fusing_ms = latencies.predict_ms("fuse", work=1)
    return Forecast(heard_ms + read_ms, looking_ms, looking_chain_ms, fusing_ms)


def _looking(plan: Plan, probed: ProbedMedia, latencies: LatencyBook) -> tuple[float, float]:
    """Return what all looking costs, and that part of it which must happen one after another."""
    sampling = sample(plan, probed)
    decoding_ms = latencies.predict_ms("frames", work=decode_work(probed, sampling))
    confirming_ms = latencies.predict_ms("confirm", work=1)
    shown = len(sampling.times_s)
    units_ms = sum(latencies.predict_ms(key, work=min(share, shown)) for key, share in plan.shares.items())
    last_unit_ms = latencies.rate_ms("detect")
    return decoding_ms + units_ms + confirming_ms, decoding_ms + last_unit_ms + confirming_ms


SHOWING = 4.0
"""What showing a decoded picture costs (scaling it, turning its colours to RGB, handing it over), in pictures decoded.
Fitted on 30 reference clips with 1, 5 and 8 frames each: 0.76 ms a megapixel decoded, 3.4 ms one shown."""


def decode_work(probed: ProbedMedia, sampling: SamplingPlan) -> float:
    """Return what decoding ``sampling`` takes, in megapixels decoded (and one more for the errand itself)."""
    megapixels = (probed.media.width or 0) * (probed.media.height or 0) / 1e6
    return 1 + megapixels * (pictures_decoded(probed, sampling) + SHOWING * len(sampling.times_s))


def pictures_decoded(probed: ProbedMedia, sampling: SamplingPlan) -> int:
    """Return how many pictures must be decoded to show those of ``sampling``.

    All from the last key frame before a target up to it, unless an earlier target has passed there already.
    """
    if sampling.strategy == "keyframes":
        return len(sampling.times_s)
    times_s, keys_s = probed.frame_times_s, probed.keyframe_times_s or (0.0,)
    pictures = at = 0
    for target_s in sampling.times_s:
        key_s = keys_s[max(0, bisect_right(keys_s, target_s) - 1)]
        begin, end = max(at, bisect_left(times_s, key_s)), bisect_right(times_s, target_s)
        pictures, at = pictures + max(0, end - begin), end
    return pictures
