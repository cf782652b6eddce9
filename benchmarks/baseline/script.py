"""The script: what one gets by joining the usual libraries in the usual way.

OpenCV seeks to the frames and runs the detector, RapidOCR reads, openai-whisper listens, sentence-transformers finds
topics, VADER judges the mood. One after another, every library at its defaults, all models loaded beforehand.
It answers less than the product does: no scene, no unsafe pictures, no tracking, no guards against invented words.
"""

import os
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import cv2
import imageio_ffmpeg
import numpy as np
from rapidocr import RapidOCR
from sentence_transformers import SentenceTransformer
from vaderSentiment.vaderSentiment import SentimentIntensityAnalyzer

from benchmarks.baseline.whisper_weights import load_whisper

FRAMES = 4
TOPICS = {
    "sports": "sports, a match, a player",
    "news": "news, politics, government",
    "music": "music, a song, a concert",
    "food": "food, cooking, a recipe",
    "travel": "travel, nature, a journey",
    "technology": "technology, science, software",
    "education": "a lesson, teaching, a lecture",
    "lifestyle": "daily life, family, home",
}
MIN_SCORE = 0.5
"""OpenCV's samples use it for this kind of detector."""


class Script:
    """All models, warm. ``whispers``: a folder with CTranslate2 Whisper weights for each language."""

    def __init__(self, *, whispers: dict[str, Path], detector: Path, embedder: Path) -> None:
        graph, config = detector / "frozen_inference_graph.pb", next(detector.glob("*.pbtxt"))
        self._detector = cv2.dnn.readNetFromTensorflow(str(graph), str(config))
        self._labels = (detector / "labels.txt").read_text("utf-8").splitlines()
        self._ocr = RapidOCR()
        self._whispers = {language: load_whisper(folder) for language, folder in whispers.items()}
        self._embedder = SentenceTransformer(str(embedder), device="cpu")
        self._topics = self._embedder.encode(list(TOPICS.values()), normalize_embeddings=True)
        self._mood = SentimentIntensityAnalyzer()

    def run(self, path: str, *, language: str) -> dict[str, Any]:
        """Analyse one clip. Returns what was found and, under ``stages``, milliseconds (wall, CPU) of each step."""
        watch = Stopwatch()
        frames = watch.time("frames", lambda: grab_frames(path, FRAMES))
        objects = watch.time("detect", lambda: [self._detect(frame) for frame in frames])
        text = watch.time("ocr", lambda: self._read(frames[len(frames) // 2]))
        said = watch.time("transcribe", lambda: self._whispers[language].transcribe(path, fp16=False)["text"])
        topic = watch.time("text", lambda: self._topic(" ".join([said, *text])))
        mood = watch.time("sentiment", lambda: self._mood.polarity_scores(said)["compound"])
        labels = sorted({label for frame in objects for label in frame})
        found = {"objects": labels, "text": text, "transcript": said, "topic": topic, "sentiment": mood}
        return found | {"stages": watch.stages}

    def _detect(self, frame: np.ndarray) -> list[str]:
        blob = cv2.dnn.blobFromImage(frame, 1 / 127.5, (320, 320), (127.5, 127.5, 127.5), swapRB=True)
        self._detector.setInput(blob)
        found = self._detector.forward()[0, 0]
        return [self._labels[int(kind) - 1] for _, kind, score, *_ in found if score >= MIN_SCORE]

    def _read(self, frame: np.ndarray) -> list[str]:
        return list(self._ocr(frame).txts or ())

    def _topic(self, text: str) -> str:
        vector = self._embedder.encode([text], normalize_embeddings=True)[0]
        return list(TOPICS)[int(np.argmax(self._topics @ vector))]


def grab_frames(path: str, count: int) -> list[np.ndarray]:
    """Return ``count`` frames, evenly spread, by OpenCV's seeking."""
    capture = cv2.VideoCapture(path)
    total = int(capture.get(cv2.CAP_PROP_FRAME_COUNT))
    frames = []
    for position in np.linspace(0, total - 1, count + 2).astype(int)[1:-1]:
        capture.set(cv2.CAP_PROP_POS_FRAMES, int(position))
        ok, frame = capture.read()
        if ok:
            frames.append(frame)
    capture.release()
    return frames


class Stopwatch:
    """Wall and CPU milliseconds of named steps; CPU counts every thread and every ended child (Whisper's ffmpeg)."""

    def __init__(self) -> None:
        self.stages: dict[str, dict[str, float]] = {}

    def time(self, name: str, step: Callable[[], Any]) -> Any:
        """Run ``step``, note its cost under ``name`` and return what it returns."""
        wall_s, cpu_s = time.perf_counter(), _cpu_s()
        result = step()
        self.stages[name] = {
            "wall_ms": (time.perf_counter() - wall_s) * 1e3,
            "cpu_ms": (_cpu_s() - cpu_s) * 1e3,
        }
        return result


def _cpu_s() -> float:
    times = os.times()
    return time.process_time() + times.children_user + times.children_system


def put_ffmpeg_on_path(folder: Path) -> None:
    """Let openai-whisper find an ``ffmpeg``: the one that comes with imageio-ffmpeg, linked into ``folder``."""
    link = folder / "ffmpeg"
    if not link.exists():
        link.symlink_to(imageio_ffmpeg.get_ffmpeg_exe())
    os.environ["PATH"] = f"{folder}{os.pathsep}{os.environ['PATH']}"
