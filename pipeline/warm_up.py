"""Runs every stage at start-up: no clip pays for lazy loading, and the planner gets its first costs.

Costs are measured once a machine, each stage alone and several times, and kept (``latency_file.py``): later starts only
load what is lazy.
"""

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from statistics import median

import numpy as np
from PIL import Image, ImageDraw

from llm_engine.understanding import Origin, Reader
from pipeline.latency import LatencyBook
from pipeline.slot_queue import Rank
from pipeline.slots import CpuSlots
from pipeline.toolbox import Toolbox
from schemas.deadline import Deadline
from schemas.media import Frame
from schemas.perception import FrameDetections
from stages.confirm import Look
from stages.sentiment import SentimentTask
from stages.speech_sample import SampleLanguage, speech_sample, spoken
from stages.speech_window import Window
from stages.transcribe import PieceTask, SpeechTask, cost_key

ROUNDS = 3
"""Measured after one that is not: the first call of a model pays for its memory."""

SHARES = (0.5, 1.0)
"""Of the spoken samples: two sizes tell what any piece costs, and what each second adds."""

WORDS = {
    "en": "A short text about nothing in particular, to warm up what reads.",
    "zh": "一段没有特别内容的短文，用来让阅读的部分准备好。",
}
"""Each script brings dictionaries of its own, loaded at the first text."""


@dataclass(frozen=True, slots=True)
class _Trial:
    """Something that a clip needs, at one size. ``key``: where its cost is booked; None: it cannot be shown here."""

    key: str | None
    run: Callable[[], object]
    work: float = 1.0


async def warm_up(tools: Toolbox, *, slots: CpuSlots, latencies: LatencyBook, measured: bool) -> None:
    """Run every stage once, and unless costs are ``measured`` already ``ROUNDS`` times more. Mutates ``latencies``."""
    await _warm_reader(tools.reader, latencies, keep=measured)
    points: dict[str, list[tuple[float, float]]] = {}
    for trial in (*_pictures(tools), *_sounds(tools)):
        await slots.run(trial.run, rank=Rank.CHAIN, deadline=Deadline.never())
        if trial.key is None or measured:
            continue
        rounds = [await slots.run(trial.run, rank=Rank.CHAIN, deadline=Deadline.never()) for _ in range(ROUNDS)]
        points.setdefault(trial.key, []).append((trial.work, median(ms for _, ms in rounds)))
    for key, measurements in points.items():
        latencies.calibrate(key, measurements)


def _pictures(tools: Toolbox) -> list[_Trial]:
    never, frame = Deadline.never(), _frame()
    looks = [Look(frame, FrameDetections(0.0, ()))]
    return [
        _Trial("ocr", partial(tools.ocr.run, frame, deadline=never)),
        _Trial("detect", partial(tools.detect.run, frame, deadline=never)),
        _Trial(None, partial(tools.confirm.run, looks, deadline=never)),
        _Trial("unsafe", partial(tools.unsafe.run, frame, deadline=never)),
        _Trial("scene", partial(tools.scene.run, frame, deadline=never)),
    ]


def _sounds(tools: Toolbox) -> list[_Trial]:
    never, english = Deadline.never(), speech_sample("en")
    task = SpeechTask(audio=english, spans=(spoken("en"),))
    readings: list[tuple[SampleLanguage, bool]] = [("en", True), ("zh", True), ("zh", False)]
    return [
        _Trial("vad", partial(tools.vad.run, english, deadline=never), english.duration_s),
        _Trial("language", partial(tools.transcribe.language, task, deadline=never)),
        *(_piece(tools, language, hasty=hasty, share=share) for language, hasty in readings for share in SHARES),
        *(
            _Trial("sentiment", partial(tools.sentiment.run, SentimentTask(words, language), deadline=never))
            for language, words in WORDS.items()
        ),
    ]


def _piece(tools: Toolbox, language: SampleLanguage, *, hasty: bool, share: float) -> _Trial:
    window = Window((spoken(language, share=share),), language)
    # Checked, as a clip's pieces are: that is a part of what they cost.
    task = PieceTask(audio=speech_sample(language), window=window, hasty=hasty, check_language=True)
    run = partial(tools.transcribe.run, task, deadline=Deadline.never())
    return _Trial(cost_key(language, "auto", hasty=hasty), run, window.duration_s)


async def _warm_reader(reader: Reader, latencies: LatencyBook, *, keep: bool) -> None:
    """Have the labels prepared, which takes far longer than any clip's text, then read a text as a clip's is read."""
    kept = latencies.kept()
    await reader.warm()
    for language, words in WORDS.items():
        understanding = reader.begin("warm-up")
        await understanding.read(Origin.SPEECH, words, language=language, deadline=Deadline.never())
        understanding.insights()
    if keep:
        latencies.restore(kept)
        return
    latencies.forget("text")
    latencies.forget("llm")
    for _ in range(ROUNDS):
        await reader.begin("warm-up").read(Origin.SPEECH, WORDS["en"], language="en", deadline=Deadline.never())


def _frame() -> Frame:
    """Return a picture with a few words on a textured ground: what OCR costs lies between none and many."""
    ground = np.random.default_rng(0).integers(90, 160, (360, 640, 3), dtype=np.uint8)
    picture = Image.fromarray(ground)
    pen = ImageDraw.Draw(picture)
    pen.text((40, 260), "warming up", fill="white", font_size=32)
    return Frame(index=0, t_s=0.0, image=np.asarray(picture), display_width=640, display_height=360)
