"""The hostile and odd files: each must be answered as its manifest says, without crash or hang."""

import asyncio
import os
import tempfile
import time
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from fnmatch import fnmatch
from pathlib import Path
from typing import Any

from benchmarks.words import word_errors
from pipeline.analyze import Analyzer
from pipeline.analyze_command import job_for
from schemas.deadline import Deadline
from schemas.errors import ErrorCode
from schemas.result import FusedResult, Media, ResultStatus, StageStatus
from tests.hard_cases import HardCase, build_hard_folder

HANG_S = 60.0
"""Far beyond what any of the files needs: the decoders' own limits must have ended it long before."""

CLOSE_S = 0.1
"""Containers say durations to a frame at best."""

MISHEARD = 0.10
MISHEARD_WHEN_CUT = 0.34
"""Of six words cut off in the middle, the last two may be anything."""

FORBIDDEN_PORT = 18_999
"""Two of the files try to make the reader connect here."""

SECRET = "root:x:0:"
"""How the file begins that some of them try to make the reader show."""

ALSO_RIGHT = {
    "47_header_claims_100h.mp4": ErrorCode.TOO_LONG,
    "names/bad\\xff\\xfeutf8.mp4": ErrorCode.BAD_NAME,
    "names/link_passwd.mp4": ErrorCode.NOT_A_REGULAR_FILE,
}
"""Refusals that the manifest's notes call acceptable, or better."""


@dataclass(frozen=True, slots=True)
class HardScore:
    """What came of one file, and what was wrong with it (nothing, as it should be)."""

    name: str
    answer: str
    seconds: float
    wrong: tuple[str, ...]


async def run_hard_cases(analyzer: Analyzer, source: Path, *, only: str) -> list[HardScore]:
    """Analyse every hard file of ``source`` whose path in the media folder matches ``only``."""
    if not (source / "manifest.json").is_file():
        return []
    with tempfile.TemporaryDirectory() as folder:
        cases = build_hard_folder(source, Path(folder))
        return [await _run(analyzer, case) for case in cases if fnmatch(f"hard/{case.name}", only)]


async def _run(analyzer: Analyzer, case: HardCase) -> HardScore:
    path = Path(os.fsdecode(case.path))
    began_s = time.perf_counter()
    try:
        async with _forbidden_port() as callers, asyncio.timeout(HANG_S):
            analysis = await analyzer.analyze(job_for(path), path, deadline=Deadline.never())
    except TimeoutError:
        return HardScore(case.name, "none", HANG_S, ("it hangs",))
    except Exception as error:  # noqa: BLE001  (any exception is a finding)
        return HardScore(case.name, "none", time.perf_counter() - began_s, (f"it raises {error!r}",))
    result = analysis.result
    wrong = [*judge(case, result), *(["it calls a forbidden port"] if callers else [])]
    answer = result.error.code if result.error else result.status
    return HardScore(case.name, answer, time.perf_counter() - began_s, tuple(wrong))


@asynccontextmanager
async def _forbidden_port() -> AsyncIterator[list[str]]:
    """Listen where nobody may call, and give the list of those who do."""
    callers: list[str] = []

    def note(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        callers.append(str(writer.get_extra_info("peername")))
        writer.close()

    async with await asyncio.start_server(note, "127.0.0.1", FORBIDDEN_PORT):
        yield callers


def judge(case: HardCase, result: FusedResult) -> list[str]:
    """Return what differs from what the manifest expects of ``case``."""
    wrong = ["it shows a file of this machine"] if SECRET in result.model_dump_json() else []
    if result.error is not None:
        return wrong + _judge_refusal(case, result.error.code, retryable=result.error.retryable)
    if not case.is_accepted:
        return [*wrong, f"accepted, not refused with {case.expect['error']}"]
    if case.is_sound_only:
        return wrong + _judge_sound_only(result)
    return wrong + list(_judge_answer(case.expect, result))


def _judge_refusal(case: HardCase, code: ErrorCode, *, retryable: bool) -> list[str]:
    wanted = case.expect.get("error", "an answer")
    if case.is_accepted and ALSO_RIGHT.get(case.name) != code:
        return [f"refused with {code}, not answered"]
    if not case.is_accepted and code not in (wanted, ALSO_RIGHT.get(case.name)):
        return [f"refused with {code}, not {wanted}"]
    return ["called worth another try"] if retryable else []


def _judge_sound_only(result: FusedResult) -> list[str]:
    looked = [name for name in ("detect", "ocr") if result.stages[name].status is not StageStatus.ABSENT]
    wrong = [f"{name} is not absent" for name in looked]
    if result.stages["vad"].status is not StageStatus.OK:
        wrong.append("nobody listened")
    return wrong


def _judge_answer(expect: dict[str, Any], result: FusedResult) -> Iterator[str]:
    whole = expect["result"] == "ok"
    if result.status is not (ResultStatus.COMPLETE if whole else ResultStatus.PARTIAL):
        yield f"status {result.status}"
    if not whole and not result.warnings:
        yield "no warning"
    if result.media is None:
        yield "no media facts"
        return
    yield from _judge_media(expect, result.media)
    yield from _judge_findings(expect, result)


def _judge_media(expect: dict[str, Any], media: Media) -> Iterator[str]:
    for field, found in (("width", media.width), ("height", media.height), ("has_audio", media.has_audio)):
        if field in expect and expect[field] != found:
            yield f"{field} {found}, not {expect[field]}"
    if "frames" in expect and media.frame_count != expect["frames"]:
        yield f"{media.frame_count} frames, not {expect['frames']}"
    if media.frame_count < expect.get("frames_min", 0):
        yield f"{media.frame_count} frames, fewer than {expect['frames_min']}"
    if "fps" in expect and (media.fps is None or abs(media.fps - expect["fps"]) > 0.5):
        yield f"{media.fps} fps, not {expect['fps']}"
    duration_s = expect.get("duration", expect.get("duration_real"))
    if duration_s is not None and abs(media.duration_s - duration_s) > CLOSE_S:
        yield f"{media.duration_s:.2f} s long, not {duration_s}"


def _judge_findings(expect: dict[str, Any], result: FusedResult) -> Iterator[str]:
    if "audio_seconds" in expect and abs(result.coverage.audio_s - expect["audio_seconds"]) > CLOSE_S:
        yield f"{result.coverage.audio_s:.2f} s of sound, not {expect['audio_seconds']}"
    if "transcript" in expect:
        yield from _judge_speech(expect["transcript"], result.speech.text if result.speech else "")
    objects = {thing.label for thing in result.objects}
    listed = {label for label in ("car", "person") if label in expect.get("objects", "")}
    if not listed <= objects:
        yield f"not seen: {', '.join(listed - objects)}"
    if expect.get("objects") == "none" and objects:
        yield f"seen: {', '.join(objects)}"
    if expect.get("text") == "none" and result.text:
        yield f"read: {result.text[0].text}"
    if "scene" in expect and result.scene and result.scene[0].score > 0.5:
        yield f"scene {result.scene[0].label}"


def _judge_speech(expected: str, heard: str) -> Iterator[str]:
    truth, _, note = expected.partition(" (")
    allowed = MISHEARD_WHEN_CUT if "cut" in note else MISHEARD
    if word_errors(truth, heard).rate > allowed:
        yield f"heard {heard!r}"
