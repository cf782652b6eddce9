"""Stand-ins for decoders and models, for tests of the orchestration alone. Real ones have their own suites."""

import asyncio
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeVar

import numpy as np

from llm_engine.backends.embedding import EmbeddingEngine
from llm_engine.keywords import KeywordFinder
from llm_engine.labels import load_vocabulary
from llm_engine.offload import until
from llm_engine.understanding import Reader
from pipeline.analyze import Analyzer
from pipeline.forecast import PRIORS_MS
from pipeline.job_run import Workshop
from pipeline.latency import LatencyBook
from pipeline.slots import CpuSlots
from pipeline.toolbox import Toolbox
from schemas.deadline import Deadline
from schemas.errors import DeadlineExceeded, HalfsecondError
from schemas.job import Source, VideoJob
from schemas.media import AudioClip, Frame, ProbedMedia, SamplingPlan
from schemas.perception import FrameDetections, FrameScene, FrameText, Polarity, SpeechSpan
from schemas.result import Detection, Label, Media, SpeechSegment, TextSpan
from stages.sentiment import SentimentTask
from stages.speech_window import Window
from stages.transcribe import HeardTranscript, SpeechTask
from tests.unit.virtual_threads import Gate, VirtualThreads
from tests.unit.virtual_time import VirtualLoop

T = TypeVar("T")

VIDEO = ProbedMedia(
    media=Media(
        duration_s=4,
        width=64,
        height=36,
        fps=25,
        frame_count=100,
        has_audio=True,
        video_codec="h264",
        audio_codec="aac",
    ),
    frame_times_s=tuple(i / 25 for i in range(100)),
    keyframe_times_s=(0.0,),
    audio_s=4.0,
)

SOUND_ONLY = ProbedMedia(media=Media(duration_s=4, has_audio=True, audio_codec="mp3"), audio_s=4.0)


@dataclass
class FakeSession:
    """A decoder that knows one clip."""

    probed: ProbedMedia
    audio_clip: AudioClip
    packets_damaged: int = 0
    warnings: tuple[Any, ...] = ()

    async def probe(self) -> ProbedMedia:
        return self.probed

    async def frames(self, plan: SamplingPlan) -> AsyncIterator[Frame]:
        for index, t_s in enumerate(plan.times_s):
            yield Frame(index, t_s, np.full((36, 64, 3), 10 * index, np.uint8), 64, 36)

    async def audio(self, *, max_s: float) -> AudioClip:
        await asyncio.sleep(0.001)  # or, on a clock that stands still, sound would be learnt to cost nothing at all
        return self.audio_clip


@dataclass
class FakeDecoders:
    """A pool whose every file is the same clip."""

    probed: ProbedMedia = VIDEO
    audio_clip: AudioClip = field(default_factory=lambda: AudioClip(np.zeros(64_000, np.float32)))
    refusal: HalfsecondError | None = None
    borrowed: int = 0

    @asynccontextmanager
    async def session(self, path: Path, *, deadline: Deadline) -> AsyncIterator[FakeSession]:
        if self.refusal:
            raise self.refusal
        self.borrowed += 1
        try:
            yield FakeSession(self.probed, self.audio_clip)
        finally:
            self.borrowed -= 1


class FakeStage:
    """Answers with ``answer(unit)`` once ``gate`` is open."""

    model = "fake"

    def __init__(self, name: str, answer) -> None:
        self.name = name
        self.answer = answer
        self.gate = Gate()
        self.gate.set()
        self.seen: list[Any] = []
        self.expires = True

    def run(self, unit: Any, *, deadline: Deadline) -> Any:
        self.seen.append(unit)
        self.gate.wait(5)
        if self.expires and deadline.expired:
            raise DeadlineExceeded
        return self.answer(unit)


class FakeTranscriber(FakeStage):
    """Hears all speech in one language and one window, without waiting; ``gate`` and ``seen`` are those of ``run``."""

    def windows(self, unit: SpeechTask, *, deadline: Deadline) -> list[Window]:
        return [Window(unit.spans, "en")]

    def language(self, unit: SpeechTask, *, deadline: Deadline) -> str:
        return "en"


class FakeLanguage:
    def of(self, text: str) -> str:
        return "en"


class FakeEncoder:
    """Two-dimensional meanings, so that every text has one."""

    model = "fake-encoder"

    def encode(self, texts: Sequence[str]) -> np.ndarray:
        angles = [len(text) for text in texts]
        return np.array([[np.cos(a), np.sin(a)] for a in angles], np.float32)


def transcript(text: str = "Hello world.", *, complete: bool = True) -> HeardTranscript:
    segment = SpeechSegment(t_start_s=0.5, t_end_s=2, text=text, score=0.9, language="en")
    return HeardTranscript(
        language="en", segments=(segment,), model="fake-asr", speech_s=1.5, complete=complete, span=SpeechSpan(0.5, 2)
    )


def toolbox() -> Toolbox:
    """Every tool, answering at once."""
    car = Detection(label="car", score=0.9, box=(0.1, 0.1, 0.5, 0.5), box_px=(6, 3, 32, 18), t_s=0)
    embedding = np.zeros(1280, np.float32)
    embedding[0] = 1
    return Toolbox(
        detect=FakeStage("detect", lambda f: FrameDetections(f.t_s, (car.model_copy(update={"t_s": f.t_s}),))),
        confirm=FakeStage("confirm", lambda looks: tuple(look.found for look in looks)),
        scene=FakeStage("scene", lambda f: FrameScene(f.t_s, (Label(label="street", score=0.8),), (), embedding)),
        unsafe=FakeStage("unsafe", lambda _: 0.01),
        ocr=FakeStage("ocr", lambda f: FrameText(f.t_s, (caption("SALE TODAY", f.t_s),))),
        vad=FakeStage("vad", lambda _: (SpeechSpan(0.5, 2.0),)),
        transcribe=FakeTranscriber("transcribe", lambda _: transcript()),
        sentiment=FakeStage("sentiment", feel),
        text_language=FakeLanguage(),
        reader=Reader(EmbeddingEngine(FakeEncoder(), offload=inline), load_vocabulary(), KeywordFinder()),
    )


def caption(text: str, t_s: float) -> TextSpan:
    return TextSpan(text=text, score=0.9, box=(0.1, 0.8, 0.9, 0.9), t_start_s=t_s, t_end_s=t_s)


def feel(task: SentimentTask) -> Polarity:
    return Polarity(0.0, "fake")


async def inline(call: Callable[[], T], *, deadline: Deadline) -> T:
    """An ``Offload`` for calls that take no time."""
    async with until(deadline):
        return call()


@asynccontextmanager
async def analyzer(tools: Toolbox, decoders: FakeDecoders) -> AsyncIterator[Analyzer]:
    """On the running loop's clock: on a ``VirtualLoop`` units wait in virtual time."""
    loop = asyncio.get_running_loop()
    virtual = isinstance(loop, VirtualLoop)
    slots = CpuSlots(4, clock=loop.time, threads=VirtualThreads() if virtual else None)
    try:
        yield Analyzer(Workshop(tools, decoders, slots, LatencyBook(PRIORS_MS)), clock=loop.time)
    finally:
        for name in ("detect", "confirm", "scene", "unsafe", "ocr", "vad", "transcribe", "sentiment"):
            getattr(tools, name).gate.set()
        if not virtual:
            await asyncio.to_thread(slots.close)


def job(**fields: Any) -> VideoJob:
    return VideoJob(video_id="clip", source=Source(uri="file:///clip.mp4"), **fields)
