"""Judges one result against the truth, and all of them against the goals. Pure."""

from collections.abc import Sequence
from dataclasses import dataclass

from benchmarks.captions import CaptionScore, CaptionTruth, load_caption_truth, score_captions
from benchmarks.media import Clip
from benchmarks.sights import (
    ObjectScore,
    ObjectTruth,
    is_sensible,
    load_object_truth,
    load_scene_truth,
    score_objects,
)
from benchmarks.words import Errors, Held, SpeechScore, score_speech
from pipeline.plans import spread
from schemas.result import FusedResult


@dataclass(frozen=True, slots=True)
class Truth:
    """What is known beyond the manifest's own fields, by the clip's name."""

    objects: dict[str, ObjectTruth]
    captions: dict[str, CaptionTruth]
    scenes: dict[str, frozenset[str]]


def load_truth() -> Truth:
    """Read the truth files beside this one."""
    return Truth(load_object_truth(), load_caption_truth(), load_scene_truth())


@dataclass(frozen=True, slots=True)
class ClipScore:
    """How one clip did. None: the manifest gives no truth to judge this by."""

    name: str
    status: str
    plan: str
    latency_ms: float
    heard: str
    invented_words: bool | None = None
    speech: SpeechScore | None = None
    language_right: bool | None = None
    objects: ObjectScore | None = None
    captions: CaptionScore | None = None
    scene_sensible: bool | None = None
    scene: str = ""


def score_clip(clip: Clip, result: FusedResult, truth: Truth) -> ClipScore:
    """Judge one result."""
    heard = result.speech.text.strip() if result.speech else ""
    objects, captions, scene = truth.objects.get(clip.name), truth.captions.get(clip.name), truth.scenes.get(clip.name)
    return ClipScore(
        name=clip.name,
        status=result.status,
        plan=result.plan.name if result.plan else "",
        latency_ms=result.latency_ms,
        heard=heard,
        invented_words=bool(heard) if clip.is_silent else None,
        speech=score_speech(clip.transcript, heard) if clip.transcript else None,
        language_right=_language_right(clip, result),
        objects=score_objects(objects, result.objects) if objects else None,
        captions=score_captions(captions, result.text, read_times_s=read_times_s(result)) if captions else None,
        scene_sensible=is_sensible(scene, result.scene) if scene else None,
        scene=result.scene[0].label if result.scene else "",
    )


def read_times_s(result: FusedResult) -> tuple[float, ...]:
    """Return the times of the frames that OCR was given, which the plan and the coverage tell."""
    if result.plan is None:
        return ()
    times_s = result.coverage.frame_times_s
    return tuple(times_s[index] for index in sorted(spread(result.plan.ocr_frames, of=len(times_s))))


def _language_right(clip: Clip, result: FusedResult) -> bool | None:
    """Judge the language where the manifest names one; of the clip that changes its language, either is right."""
    if clip.language is None:
        return None
    return result.speech is not None and result.speech.language in clip.language.replace(",", " ").split()


@dataclass(frozen=True, slots=True)
class Goal:
    """One promise, what came of it, and whether it was kept."""

    name: str
    needed: str
    got: str
    met: bool


def goals(scores: Sequence[ClipScore]) -> list[Goal]:
    """Compare totals with what was promised. Promises that no clip of ``scores`` can test are left out."""
    found = (
        _silence(scores),
        _rate("English word error rate", [s.speech.words for s in scores if s.speech], most=0.10),
        _rate("Mandarin character error rate", [s.speech.characters for s in scores if s.speech], most=0.25),
        _share("spoken language right", [s.language_right for s in scores], least=1.0),
        _listed("listed objects found", [(s.objects.found, s.objects.missed) for s in scores if s.objects], least=0.85),
        _false_labels(scores),
        _listed(
            "listed captions read", [(s.captions.found, s.captions.missed) for s in scores if s.captions], least=0.90
        ),
        _share("scene label sensible", [s.scene_sensible for s in scores], least=0.70),
    )
    return [goal for goal in found if goal is not None]


def held_words(scores: Sequence[ClipScore]) -> dict[str, Held]:
    """Return which part of all that is said the answers hold, by language; languages without any are left out."""
    judged = [score.speech for score in scores if score.speech]
    totals = {
        "English words held": sum((s.words_held for s in judged if s.words_held), start=Held()),
        "Mandarin characters held": sum((s.characters_held for s in judged if s.characters_held), start=Held()),
    }
    return {name: total for name, total in totals.items() if total.length}


def _silence(scores: Sequence[ClipScore]) -> Goal | None:
    judged = [score for score in scores if score.invented_words is not None]
    wrong = sum(bool(score.invented_words) for score in judged)
    if not judged:
        return None
    return Goal("words invented on clips without any", "0 clips", f"{wrong} of {len(judged)}", wrong == 0)


def _rate(name: str, parts: Sequence[Errors | None], *, most: float) -> Goal | None:
    total = sum((part for part in parts if part is not None), start=Errors())
    if not total.length:
        return None
    return Goal(name, f"<= {most:.2f}", f"{total.rate:.3f} ({total.errors} of {total.length})", total.rate <= most)


def _share(name: str, verdicts: Sequence[bool | None], *, least: float) -> Goal | None:
    return _enough(name, sum(v is True for v in verdicts), sum(v is not None for v in verdicts), least)


def _listed(name: str, pairs: Sequence[tuple[tuple[str, ...], tuple[str, ...]]], *, least: float) -> Goal | None:
    found, missed = sum(len(pair[0]) for pair in pairs), sum(len(pair[1]) for pair in pairs)
    return _enough(name, found, found + missed, least)


def _enough(name: str, right: int, total: int, least: float) -> Goal | None:
    if not total:
        return None
    return Goal(name, f">= {least:.0%}", f"{right / total:.1%} ({right} of {total})", right >= least * total)


def _false_labels(scores: Sequence[ClipScore]) -> Goal | None:
    judged = [score.objects.false for score in scores if score.objects and score.objects.false is not None]
    if not judged:
        return None
    count = sum(len(labels) for labels in judged)
    got = f"{count / len(judged):.2f} ({count} on {len(judged)})"
    return Goal("false labels a clip", "<= 1.00", got, count <= len(judged))
