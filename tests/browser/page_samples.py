"""Results to show: a rich one, a partial one, a refused one, sound only, a hostile one and a crowded one."""

import numpy as np

from pipeline.page import PageEntry
from schemas.errors import ErrorCode, WarningCode
from schemas.media import Frame
from schemas.result import (
    BasedOn,
    Basis,
    Coverage,
    Detection,
    ErrorInfo,
    FusedResult,
    Judgement,
    Label,
    Media,
    ObjectSummary,
    PlanReport,
    ResultStatus,
    Shot,
    Speech,
    SpeechSegment,
    StageReport,
    StageStatus,
    TextSpan,
    TimelineEvent,
    WarningInfo,
    Witness,
)

SCRIPT = "<script>alert(1)</script>"
ATTRIBUTE = "\"><img src=x onerror=alert(2)>' onfocus='alert(3)"
TEMPLATE = "{{ 7 * 6163 }}{% raw %}</script><!-- ]]> "
HOSTILE = f"{SCRIPT}{ATTRIBUTE}{TEMPLATE}"
ARABIC = "مرحبا بكم في نشرة الأخبار"

TIMES_S = (0.4, 2.8, 5.2, 7.6)


def frame(index: int, t_s: float, *, width: int = 480, height: int = 270) -> Frame:
    """A smooth picture whose colours tell the frames apart."""
    across = np.linspace(0, 1, width)[None, :, None]
    down = np.linspace(0, 1, height)[:, None, None]
    tint = np.array([60 + 45 * (index % 4), 150 - 25 * (index % 5), 90 + 30 * (index % 3)])
    image = (tint * (0.45 + 0.35 * across + 0.2 * down)).clip(0, 255).astype(np.uint8)
    return Frame(index, t_s, image, 2 * width, 2 * height)


def frames(times_s: tuple[float, ...] = TIMES_S, *, width: int = 480, height: int = 270) -> tuple[Frame, ...]:
    return tuple(frame(i, t, width=width, height=height) for i, t in enumerate(times_s))


def detection(label: str, box: tuple[float, float, float, float], *, t_s: float, track: int | None = None) -> Detection:
    pixels = tuple(round(side * size) for side, size in zip(box, (960, 540, 960, 540), strict=True))
    return Detection(label=label, score=0.87, box=box, box_px=pixels, t_s=t_s, track_id=track)


def media(**changes: object) -> Media:
    facts = {"duration_s": 9.6, "width": 960, "height": 540, "fps": 25.0, "frame_count": 240, "has_audio": True}
    codecs = {"video_codec": "h264", "audio_codec": "aac", "container": "mov,mp4,m4a,3gp,3g2,mj2"}
    return Media.model_validate(facts | codecs | changes)


def stages(**changes: StageReport) -> dict[str, StageReport]:
    """Eleven stages that ended well, some of them changed."""
    ok = StageStatus.OK
    made = {
        "probe": StageReport(status=ok, start_ms=2, elapsed_ms=14),
        "frames": StageReport(status=ok, start_ms=18, elapsed_ms=96, plan="4 key frames"),
        "detect": StageReport(status=ok, start_ms=48, elapsed_ms=134, queue_ms=22, model="ssd-mobilenetv3-320"),
        "scene": StageReport(status=ok, start_ms=52, elapsed_ms=92, queue_ms=41, model="efficientnet-lite0"),
        "unsafe": StageReport(status=ok, start_ms=60, elapsed_ms=118, queue_ms=58, model="open-nsfw"),
        "ocr": StageReport(status=ok, start_ms=96, elapsed_ms=204, queue_ms=12, model="pp-ocrv6-small"),
        "audio": StageReport(status=ok, start_ms=3, elapsed_ms=48),
        "vad": StageReport(status=ok, start_ms=52, elapsed_ms=24, queue_ms=4, model="silero-vad-6.2"),
        "transcribe": StageReport(
            status=ok, start_ms=76, elapsed_ms=262, queue_ms=6, model="whisper-base", plan="short window"
        ),
        "sentiment": StageReport(status=ok, start_ms=338, elapsed_ms=6, model="vader + snownlp"),
        "text": StageReport(status=ok, start_ms=344, elapsed_ms=44, queue_ms=3, model="minilm-l6-int8"),
    }
    return made | changes


def rich_result() -> FusedResult:
    """Complete: two languages, three kinds of object, captions, four frames."""
    seen = [
        detection("person", (0.08, 0.22, 0.31, 0.93), t_s=0.4, track=1),
        detection("person", (0.12, 0.20, 0.36, 0.94), t_s=2.8, track=1),
        detection("person", (0.62, 0.25, 0.81, 0.90), t_s=2.8, track=2),
        detection("chair", (0.72, 0.55, 0.97, 0.98), t_s=2.8, track=3),
        detection("person", (0.15, 0.21, 0.38, 0.95), t_s=5.2, track=1),
        detection("laptop", (0.44, 0.58, 0.60, 0.76), t_s=5.2, track=4),
        detection("person", (0.16, 0.21, 0.40, 0.95), t_s=7.6, track=1),
    ]
    said = [
        SpeechSegment(
            t_start_s=0.5,
            t_end_s=3.9,
            text="Welcome back to the workshop, today we talk about latency.",
            score=0.91,
            language="en",
        ),
        SpeechSegment(
            t_start_s=4.3,
            t_end_s=8.8,
            text="欢迎大家来体验语音识别公开课，我们先从一个简单的例子开始。",
            score=0.84,
            language="zh",
        ),
    ]
    heard = Basis(read=dict.fromkeys(Witness, 1.0))
    return FusedResult(
        pipeline_version="0.1.0",
        job_id="job-0001",
        video_id="workshop-01",
        source_uri="file:///clips/workshop.mp4",
        status=ResultStatus.COMPLETE,
        media=media(),
        coverage=Coverage(
            frames_analyzed=4,
            frames_total=240,
            frame_times_s=TIMES_S,
            video_s=9.6,
            audio_s=9.6,
            voice_s=7.9,
            speech_s=7.9,
        ),
        detections=tuple(seen),
        objects=(
            ObjectSummary(label="person", max_count=2, t_start_s=0.4, t_end_s=7.6, score=0.87),
            ObjectSummary(label="chair", max_count=1, t_start_s=2.8, t_end_s=2.8, score=0.61),
            ObjectSummary(label="laptop", max_count=1, t_start_s=5.2, t_end_s=5.2, score=0.72),
        ),
        scene=(
            Label(label="classroom", score=0.64),
            Label(label="office", score=0.21),
            Label(label="library", score=0.06),
        ),
        shots=(Shot(t_start_s=0, t_end_s=4.1), Shot(t_start_s=4.1, t_end_s=9.6)),
        text=(
            TextSpan(
                text="语音识别公开课 第三讲", score=0.97, box=(0.28, 0.05, 0.72, 0.13), t_start_s=0.4, t_end_s=5.2
            ),
            TextSpan(
                text="LATENCY BUDGET 500 ms", score=0.93, box=(0.05, 0.86, 0.42, 0.94), t_start_s=5.2, t_end_s=7.6
            ),
        ),
        speech=Speech(language="en", text=" ".join(s.text for s in said), segments=tuple(said)),
        sentiment=Judgement(label="positive", score=0.71, sources={"vader": 0.42, "snownlp": 0.88, "labels": 0.66}),
        safety=Judgement(label="safe", score=0.98, sources={"pictures": 0.01, "words": 0.03}),
        topics=(
            Label(label="education", score=0.58),
            Label(label="technology", score=0.29),
            Label(label="news", score=0.05),
        ),
        keywords=("latency", "workshop", "语音识别", "budget"),
        summary="A lecturer welcomes people to a workshop on latency; a second speaker introduces a course on speech.",
        based_on=BasedOn(safety=heard, sentiment=heard, topics=heard, summary=heard),
        timeline=(TimelineEvent(t_start_s=0, t_end_s=4.1, kind="shot", label="Shot 1"),),
        embedding=(0.125, -0.5, 0.25),
        stages=stages(),
        plan=PlanReport(
            name="balanced",
            frames=4,
            ocr_frames=1,
            asr_model="whisper-base",
            predicted_ms=402,
            reason="The best plan predicted to fit 470 ms: best would take 610 ms.",
        ),
        latency_ms=391.4,
    )


def partial_result() -> FusedResult:
    """Speech was not ready by the deadline, on-screen text failed, a stage was left out."""
    late = StageReport(
        status=StageStatus.TIMED_OUT,
        start_ms=76,
        elapsed_ms=424,
        queue_ms=80,
        model="whisper-base",
        error=ErrorCode.DEADLINE_EXCEEDED,
    )
    broken = StageReport(
        status=StageStatus.FAILED, start_ms=96, elapsed_ms=31, model="pp-ocrv6-small", error=ErrorCode.MODEL_FAILED
    )
    unheard = Basis(read={Witness.TITLE: 1.0}, missing=(Witness.CAPTIONS, Witness.SPEECH))
    changes = {
        "status": ResultStatus.PARTIAL,
        "warnings": (WarningInfo(code=WarningCode.TRUNCATED, message="The file ends 1.2 s before its header says."),),
        "coverage": Coverage(
            frames_analyzed=4,
            frames_total=240,
            video_s=8.4,
            audio_s=8.4,
            voice_s=7.5,
            unwritten=((0.5, 3.9), (4.3, 8.4)),
            fraction=0.88,
            packets_damaged=3,
        ),
        "text": (),
        "speech": None,
        "sentiment": None,
        "safety": None,
        "based_on": BasedOn(safety=unheard, sentiment=unheard, topics=unheard, summary=unheard),
        "stages": stages(
            transcribe=late,
            ocr=broken,
            sentiment=StageReport(status=StageStatus.ABSENT),
            unsafe=StageReport(status=StageStatus.SKIPPED),
        ),
        "latency_ms": 507.2,
    }
    return rich_result().model_copy(update=changes)


def rejected_result() -> FusedResult:
    return FusedResult(
        pipeline_version="0.1.0",
        job_id="job-0003",
        video_id="list",
        source_uri="file:///clips/list.m3u8",
        status=ResultStatus.REJECTED,
        error=ErrorInfo(
            code=ErrorCode.PLAYLIST_REFUSED, message="The file is a playlist (hls) that names other files."
        ),
        stages={
            "probe": StageReport(status=StageStatus.FAILED, start_ms=1, elapsed_ms=9, error=ErrorCode.PLAYLIST_REFUSED)
        },
        latency_ms=11,
    )


def sound_result() -> FusedResult:
    """Sound only, spoken in Arabic: the vision stages are absent."""
    absent = StageReport(status=StageStatus.ABSENT)
    said = SpeechSegment(t_start_s=0.2, t_end_s=3.1, text=ARABIC, score=0.8, language="ar")
    sound = {"width": None, "height": None, "fps": None, "frame_count": 0, "video_codec": None}
    changes = {
        "media": media(**sound, audio_codec="pcm_s16le", container="wav", duration_s=3.4),
        "coverage": Coverage(audio_s=3.4, speech_s=2.9),
        "detections": (), "objects": (), "scene": (), "shots": (), "text": (), "timeline": (), "embedding": None,
        "speech": Speech(language="ar", text=ARABIC, segments=(said,)),
        "summary": ARABIC,
        "warnings": (WarningInfo(code=WarningCode.NO_VIDEO_STREAM, message="There is sound but no picture."),),
        "stages": stages(frames=absent, detect=absent, scene=absent, unsafe=absent, ocr=absent),
    }  # fmt: skip
    return rich_result().model_copy(update=changes)


def hostile_result() -> FusedResult:
    """Markup in every field that can hold a text."""
    x = HOSTILE
    said = SpeechSegment(t_start_s=0, t_end_s=2, text=x, score=0.5, language="en")
    return FusedResult(
        pipeline_version=x,
        job_id=x,
        video_id=x,
        source_uri=f"javascript:alert(4)//{x}",
        status=ResultStatus.PARTIAL,
        error=ErrorInfo(code=ErrorCode.INTERNAL, message=x),
        warnings=(WarningInfo(code=WarningCode.TRUNCATED, message=x),),
        media=media(video_codec=x, audio_codec=x, container=x),
        detections=(detection(x, (0.1, 0.1, 0.5, 0.5), t_s=0.4),),
        objects=(ObjectSummary(label=x, max_count=1, t_start_s=0, t_end_s=1, score=0.5),),
        scene=(Label(label=x, score=0.5),),
        shots=(Shot(t_start_s=0, t_end_s=9.6),),
        text=(TextSpan(text=x, score=0.5, box=(0.1, 0.1, 0.5, 0.2), t_start_s=0, t_end_s=9),),
        speech=Speech(language=x, text=x, segments=(said.model_copy(update={"language": x}), said)),
        sentiment=Judgement(label=x, score=0.5, sources={x: 0.5}),
        safety=Judgement(label=x, score=0.5, sources={x: 0.5}),
        topics=(Label(label=x, score=0.5),),
        keywords=(x,),
        summary=x,
        timeline=(TimelineEvent(t_start_s=0, t_end_s=1, kind="object", label=x),),
        stages={x: StageReport(status=StageStatus.OK, elapsed_ms=10, model=x, plan=x)},
        plan=PlanReport(name=x, frames=1, ocr_frames=0, asr_model=x, predicted_ms=1, reason=x),
        latency_ms=120,
    )


def crowded_result() -> FusedResult:
    """Two hundred boxes, forty captions and sixty shots."""
    grid = [(c / 20, r / 10) for r in range(10) for c in range(20)]
    boxes = [(x, y, x + 0.045, y + 0.09) for x, y in grid]
    labels = [f"thing {i % 14}" for i in range(len(boxes))]
    changes = {
        "detections": tuple(
            detection(n, b, t_s=TIMES_S[i % 4], track=i) for i, (n, b) in enumerate(zip(labels, boxes, strict=True))
        ),
        "objects": tuple(
            ObjectSummary(label=f"thing {i}", max_count=4, t_start_s=0.4, t_end_s=7.6, score=0.5) for i in range(14)
        ),
        "text": tuple(
            TextSpan(
                text=f"caption number {i}", score=0.9, box=(0.1, 0.1, 0.4, 0.15), t_start_s=0.2 * i, t_end_s=0.2 * i + 2
            )
            for i in range(40)
        ),
        "shots": tuple(Shot(t_start_s=0.16 * i, t_end_s=0.16 * (i + 1)) for i in range(60)),
    }
    return rich_result().model_copy(update=changes)


def sample_entries() -> list[PageEntry]:
    """One entry of each kind, in this order: rich, partial, rejected, sound, hostile, crowded."""
    return [
        PageEntry(rich_result(), frames(), "workshop.mp4", budget_ms=500),
        PageEntry(partial_result(), frames(), "workshop (cut).mp4", budget_ms=500),
        PageEntry(rejected_result(), (), "list.m3u8", budget_ms=500),
        PageEntry(sound_result(), (), "نشرة الأخبار.wav"),
        PageEntry(hostile_result(), frames(), HOSTILE, budget_ms=500),
        PageEntry(crowded_result(), frames(), "x" * 400, budget_ms=500),
    ]
