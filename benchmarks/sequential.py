"""The same models on the same frames, strictly one after another: what running them side by side is worth."""

import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from benchmarks.flow_clips import FlowClip
from benchmarks.machine import CpuMeter
from benchmarks.samples import Cost, Sample
from llm_engine.understanding import TextEvidence, understand
from pipeline.hear import LONGEST_LISTEN_S
from pipeline.job_run import Workshop
from pipeline.plans import LADDER, spread
from schemas.deadline import Deadline
from schemas.media import AudioClip, Frame
from schemas.perception import FrameText, Transcript
from stages.confirm import Look
from stages.media.sampling import plan_frames
from stages.sentiment import SentimentTask
from stages.transcribe import PieceTask, SpeechTask, joined

NEVER = Deadline.never()


class Sequential:
    """Calls the stages of a workshop itself. Tells CPU time stage by stage, because nothing else runs meanwhile."""

    def __init__(self, name: str, workshop: Workshop, meter: CpuMeter, *, plan: str) -> None:
        self.name = name
        self._workshop = workshop
        self._tools = workshop.tools
        self._meter = meter
        self._plan = next(step for step in LADDER if step.name == plan)

    async def run(self, clip: FlowClip) -> Sample:
        """Analyse ``clip`` step by step."""
        watch = Watch(self._meter)
        with watch.step("whole"):
            frames = await self._decode_frames(clip, watch)
            audio = await self._decode_audio(clip, watch)
            texts = self._look(frames, watch)
            transcript = self._listen(audio, watch)
            await self._understand(texts, transcript, watch)
        whole = watch.costs.pop("whole")
        return Sample(self.name, clip.name, whole, watch.costs, plan=self._plan.name, heard=transcript.text)

    async def _decode_frames(self, clip: FlowClip, watch: "Watch") -> list[Frame]:
        async with self._workshop.decoders.session(clip.path, deadline=NEVER) as session:
            with watch.step("probe"):
                probed = await session.probe()
            with watch.step("frames"):
                plan = plan_frames(probed, count=self._plan.frames, max_side_px=self._plan.max_side_px)
                return [frame async for frame in session.frames(plan)]

    async def _decode_audio(self, clip: FlowClip, watch: "Watch") -> AudioClip:
        with watch.step("audio"):
            async with self._workshop.decoders.session(clip.path, deadline=NEVER) as session:
                return await session.audio(max_s=LONGEST_LISTEN_S)

    def _look(self, frames: Sequence[Frame], watch: "Watch") -> list[FrameText]:
        tools, plan, count = self._tools, self._plan, len(frames)
        with watch.step("detect"):
            looks = [Look(frame, tools.detect.run(frame, deadline=NEVER)) for frame in frames]
        with watch.step("confirm"):
            tools.confirm.run(looks, deadline=NEVER)
        with watch.step("scene"):
            for index in spread(plan.scene_frames, of=count):
                tools.scene.run(frames[index], deadline=NEVER)
        with watch.step("unsafe"):
            for index in spread(plan.unsafe_frames, of=count):
                tools.unsafe.run(frames[index], deadline=NEVER)
        with watch.step("ocr"):
            return [tools.ocr.run(frames[index], deadline=NEVER) for index in sorted(spread(plan.ocr_frames, of=count))]

    def _listen(self, audio: AudioClip, watch: "Watch") -> Transcript:
        with watch.step("vad"):
            spans = self._tools.vad.run(audio, deadline=NEVER)
        with watch.step("transcribe"):
            task = SpeechTask(audio=audio, spans=spans, model=self._plan.asr, language_hint=None)
            tool = self._tools.transcribe
            windows = tool.windows(task, deadline=NEVER)
            hasty = self._plan.hasty_asr
            return joined(
                [tool.run(PieceTask(audio, window, task.model, hasty=hasty), deadline=NEVER) for window in windows]
            )

    async def _understand(self, texts: Sequence[FrameText], transcript: Transcript, watch: "Watch") -> None:
        tools = self._tools
        with watch.step("sentiment"):
            language = tools.text_language.of(transcript.text)
            tools.sentiment.run(SentimentTask(transcript.text, language), deadline=NEVER)
        with watch.step("text"):
            evidence = TextEvidence(
                transcript=transcript.text,
                on_screen=tuple(line.text for frame in texts for line in frame.lines),
                language=language,
            )
            await understand(evidence, reader=tools.reader, deadline=NEVER)


class Watch:
    """Wall and CPU milliseconds of named steps, in ``costs``."""

    def __init__(self, meter: CpuMeter) -> None:
        self.costs: dict[str, Cost] = {}
        self._meter = meter

    @contextmanager
    def step(self, name: str) -> Iterator[None]:
        """Note the cost of the block under ``name``."""
        mark, began_s = self._meter.mark(), time.perf_counter()
        yield
        wall_ms = (time.perf_counter() - began_s) * 1e3
        self.costs[name] = Cost(wall_ms, self._meter.since_s(mark) * 1e3)
