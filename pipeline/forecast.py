"""What a plan will take for a clip, from what each stage has cost on this machine so far. Pure."""

from bisect import bisect_left, bisect_right
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

from pipeline.latency import SAFE, LatencyBook, Line
from pipeline.plans import Plan, sample
from schemas.media import ProbedMedia, SamplingPlan
from stages.speech_window import PIECE_S, piece_count
from stages.transcribe import cost_key

PRIORS_MS: dict[str, float | Line] = {
    # Milliseconds a unit on one AVX2 core before anything was measured; start-up calibration replaces most of them.
    "frames": 1.5,  # a megapixel decoded
    "detect": 20.0,  # a frame
    "confirm": 40.0,  # a clip
    "scene": 12.0,  # a frame
    "unsafe": 24.0,
    "ocr": 40.0,
    "audio": 3.0,  # a second of sound
    "vad": 2.0,
    "language": 90.0,  # a look at the first seconds of speech
    "transcribe:en": Line(25.0, 30.0),  # a piece, and each second of speech in it
    "transcribe:other:1": Line(75.0, 60.0),
    "transcribe:other:5": Line(100.0, 80.0),
    "sentiment": 2.0,  # a text
    "text": 5.0,
    "llm": 50.0,  # a step of the language model; best effort, and so no part of a forecast
    "wake": 7.0,  # lateness of the event loop at a cutoff
    "fuse": 30.0,  # a clip, beside units that run on
}


@dataclass(frozen=True, slots=True)
class Forecast:
    """Milliseconds of CPU on one core, each the sum of one quantile of its stages.

    ``listening_ms``: from sound to meaning, ``listening_chain_ms``: that part of it which must happen one after another
    (pieces of speech need not). ``looking_ms``: all that is done with pictures, of which ``decoding_ms`` comes first;
    ``looking_chain_ms``: that part of it which must happen one after another; ``glancing_ms``: that part of it without
    which the answer is not whole, one look of every kind. ``fusing_ms`` comes last.
    """

    listening_ms: float
    listening_chain_ms: float
    looking_ms: float
    looking_chain_ms: float
    glancing_ms: float
    fusing_ms: float
    decoding_ms: float = 0.0

    @property
    def work_ms(self) -> float:
        """All of it but fusion."""
        return self.listening_ms + self.looking_ms

    @property
    def needed_ms(self) -> float:
        """That part of the work without which the answer is not whole."""
        return self.listening_ms + self.glancing_ms

    @property
    def span_ms(self) -> float:
        """What must happen one after another, fusion included."""
        return max(self.listening_chain_ms, self.looking_chain_ms) + self.fusing_ms

    def end_ms(self, *, slots: int, others_ms: float = 0.0) -> float:
        """Return when everything is done, by the classic bound on a schedule: ``max(longest chain, work / slots)``.

        ``others_ms``: what other jobs still have to do on the same slots.
        """
        return max(self.span_ms, (self.work_ms + others_ms) / slots + self.fusing_ms)

    def whole_ms(self, *, slots: int, others_ms: float = 0.0) -> float:
        """Return when the answer is whole, as ``end_ms``: further looks take what time there is after that."""
        return max(self.span_ms, (self.needed_ms + others_ms) / slots + self.fusing_ms)


def forecast(
    plan: Plan,
    *,
    probed: ProbedMedia,
    latencies: LatencyBook,
    quantile: float = SAFE,
    language: str | None = None,
    speech_s: float | None = None,
) -> Forecast:
    """Return what ``plan`` will take for a clip.

    ``speech_s``: seconds of speech, all of the sound until it is known; ``language``: theirs, English until then.
    """
    rate_ms = partial(latencies.rate_ms, quantile=quantile)
    hearing_ms = (rate_ms("audio") + rate_ms("vad")) * probed.audio_s
    speech_s = probed.audio_s if speech_s is None else speech_s
    speaking_ms = piece_ms = 0.0
    if speech_s:
        hearing_ms += rate_ms("language")
        pieces = piece_count(speech_s, longest_s=PIECE_S["en" if language in (None, "en") else "other"][0])
        key = cost_key(language or "en", plan.asr, hasty=True)
        piece_ms = latencies.predict_ms(key, work=speech_s / pieces, quantile=quantile)
        speaking_ms = pieces * piece_ms
    reading_ms = rate_ms("sentiment") + rate_ms("text")
    looking = _looking(plan, probed, rate_ms) if probed.has_video else (0.0, 0.0, 0.0, 0.0)
    looking_ms, looking_chain_ms, glancing_ms, decoding_ms = looking
    return Forecast(
        listening_ms=hearing_ms + speaking_ms + reading_ms,
        listening_chain_ms=hearing_ms + piece_ms + reading_ms,
        looking_ms=looking_ms,
        looking_chain_ms=looking_chain_ms,
        glancing_ms=glancing_ms,
        fusing_ms=rate_ms("fuse"),
        decoding_ms=decoding_ms,
    )


def _looking(plan: Plan, probed: ProbedMedia, rate_ms: Callable[[str], float]) -> tuple[float, float, float, float]:
    """Return what all looking costs, the part that goes one after another, the part that must be done, and decoding."""
    sampling = sample(plan, probed)
    decoding_ms = rate_ms("frames") * decode_work(probed, sampling)
    confirming_ms = rate_ms("confirm")
    shown = len(sampling.times_s)
    units_ms = sum(rate_ms(key) * min(share, shown) for key, share in plan.shares.items())
    once_ms = sum(rate_ms(key) for key in plan.shares) if shown else 0.0
    return (
        decoding_ms + units_ms + confirming_ms,
        decoding_ms + rate_ms("detect") + confirming_ms,
        decoding_ms + once_ms + confirming_ms,
        decoding_ms,
    )


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
