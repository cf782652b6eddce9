"""The models one process has loaded, by the stage they serve."""

from collections.abc import Sequence
from dataclasses import dataclass

from llm_engine.understanding import Reader
from schemas.media import AudioClip, Frame
from schemas.perception import FrameDetections, FrameScene, FrameText, Polarity, SpeechSpan
from stages.base import Stage
from stages.confirm import Look
from stages.sentiment import SentimentTask
from stages.text_language import TextLanguage
from stages.transcribe import Transcriber


@dataclass(frozen=True, slots=True)
class Toolbox:
    """Everything that looks, listens and reads. Made once in ``app.py``, shared by all jobs."""

    detect: Stage[Frame, FrameDetections]
    confirm: Stage[Sequence[Look], tuple[FrameDetections, ...]]
    scene: Stage[Frame, FrameScene]
    unsafe: Stage[Frame, float]
    ocr: Stage[Frame, FrameText]
    vad: Stage[AudioClip, tuple[SpeechSpan, ...]]
    transcribe: Transcriber
    sentiment: Stage[SentimentTask, Polarity | None]
    text_language: TextLanguage
    reader: Reader
