"""Runs every stage at start-up: no clip pays for lazy loading, and the planner gets its first costs."""

import asyncio
from collections.abc import Callable
from functools import partial

import numpy as np
from PIL import Image, ImageDraw

from llm_engine.understanding import Origin, Reader
from pipeline.latency import LatencyBook
from pipeline.slot_queue import Rank
from pipeline.slots import CpuSlots
from pipeline.toolbox import Toolbox
from schemas.deadline import Deadline
from schemas.media import SAMPLE_RATE_HZ, AudioClip, Frame
from schemas.perception import FrameDetections, SpeechSpan
from stages.confirm import Look
from stages.sentiment import SentimentTask
from stages.transcribe import AsrModel, SpeechTask, decoding_work

ROUNDS = 2
"""The first call of a model pays for its memory; the next one shows what it costs."""

SOUND_S = 5.0

WORDS = "A short text about nothing in particular, to warm up what reads."


async def warm_up(tools: Toolbox, *, slots: CpuSlots, latencies: LatencyBook) -> None:
    """Run every stage ``ROUNDS`` times on made-up input and book what the later rounds cost. Mutates ``latencies``."""
    never = Deadline.never()
    frame, sound = _frame(), _sound()
    speech_work = decoding_work(SOUND_S)
    looks = [Look(frame, FrameDetections(0.0, ()))]
    units: list[tuple[str, Callable[[], object], float]] = [
        ("ocr", partial(tools.ocr.run, frame, deadline=never), 1),
        ("detect", partial(tools.detect.run, frame, deadline=never), 1),
        ("confirm", partial(tools.confirm.run, looks, deadline=never), 1),
        ("unsafe", partial(tools.unsafe.run, frame, deadline=never), 1),
        ("scene", partial(tools.scene.run, frame, deadline=never), 1),
        ("vad", partial(tools.vad.run, sound, deadline=never), SOUND_S),
        *(
            (f"transcribe:{model}", partial(tools.transcribe.run, _speech(sound, model), deadline=never), speech_work)
            for model in ("auto", "tiny.en")
        ),
        ("sentiment", partial(tools.sentiment.run, SentimentTask(WORDS, "en"), deadline=never), 1),
    ]
    await _warm_reader(tools.reader, latencies)
    async with asyncio.TaskGroup() as stages:
        for name, unit, work in units:
            stages.create_task(_warm_stage(name, unit, work=work, slots=slots, latencies=latencies))


async def _warm_stage(
    name: str, unit: Callable[[], object], *, work: float, slots: CpuSlots, latencies: LatencyBook
) -> None:
    """Run one stage; book all rounds but the first. Beside others, as in a clip."""
    for number in range(ROUNDS):
        _, ms = await slots.run(unit, rank=Rank.CHAIN, deadline=Deadline.never())
        if number:
            latencies.observe(name, ms=ms, work=work)


async def _warm_reader(reader: Reader, latencies: LatencyBook) -> None:
    """Have the labels prepared, which takes far longer than any clip's text, then read a text as a clip's is read."""
    await reader.warm()
    latencies.forget("text")
    latencies.forget("llm")
    for _ in range(ROUNDS):
        await reader.begin("warm-up").read(Origin.SPEECH, WORDS, language="en", deadline=Deadline.never())


def _frame() -> Frame:
    """Return a picture with two lines of text on a textured ground, so that OCR has something to read."""
    ground = np.random.default_rng(0).integers(90, 160, (360, 640, 3), dtype=np.uint8)
    picture = Image.fromarray(ground)
    pen = ImageDraw.Draw(picture)
    for line in range(2):
        pen.text((40, 200 + 60 * line), "warming up the text reader", fill="white", font_size=32)
    return Frame(index=0, t_s=0.0, image=np.asarray(picture), display_width=640, display_height=360)


def _speech(sound: AudioClip, model: AsrModel) -> SpeechTask:
    return SpeechTask(audio=sound, spans=(SpeechSpan(0.0, SOUND_S),), model=model, language_hint=None)


def _sound() -> AudioClip:
    """Return noise. It holds no words, but a window costs the encoder the same whatever is in it."""
    noise = np.random.default_rng(0).normal(0, 0.05, int(SOUND_S * SAMPLE_RATE_HZ))
    return AudioClip(noise.astype(np.float32))
