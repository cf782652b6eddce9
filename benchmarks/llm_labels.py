"""Part "labels": the mood of one clip's words by scoring, as the pipeline asks for it, on two threads.

The words are those of the manifest's transcripts. Each round begins every text at another word, so that only what all
questions share can come from the prefix cache.
"""

from statistics import median

from benchmarks.llm_contestants import Contestants, NotMeasured
from benchmarks.llm_findings import Findings, Progress, at_most, unmeasured
from benchmarks.llm_prompts import spoken_texts
from benchmarks.samples import p95
from benchmarks.tables import Table

SCORING = "ours int8, 2 threads"
LIMIT_MS = 230.0


def measure(contestants: Contestants, *, rounds: int, progress: Progress) -> Findings:
    """Score every text once a round, after one round that warms up."""
    promise = "labels of one clip by scoring, 2 threads, median wall"
    scored: list[dict[str, float]] = []
    try:
        for number in range(rounds + 1):
            progress(f"round {number} of {rounds}")
            texts = [(begun_at(text, number), language) for text, language in spoken_texts()]
            _, found = contestants.get(SCORING).ask("labels", texts=texts)
            scored += found if number else []
    except NotMeasured as reason:
        return Findings([], [unmeasured(promise, f"<= {LIMIT_MS:g} ms", str(reason))])
    walls_ms = [one["wall_ms"] for one in scored]
    new, prefix = ([one[key] for one in scored] for key in ("new_tokens", "prefix_tokens"))
    row = (
        SCORING,
        str(len(scored)),
        f"{median(walls_ms):.0f} / {p95(walls_ms):.0f} / {max(walls_ms):.0f}",
        f"{median(prefix):.0f}",
        f"{median(new):.0f} / {max(new):.0f}",
    )
    headings = ("engine", "clips", "wall ms: median / p95 / most", "cached tokens, median", "new tokens: median / most")
    table = Table("Labels (mood) of one clip by scoring", headings, [row])
    return Findings([table], [at_most(promise, LIMIT_MS, median(walls_ms), unit=" ms")])


def begun_at(text: str, number: int) -> str:
    """Return ``text`` with its first ``number`` words at its end (characters, where no blanks part words)."""
    parts, glue = (text.split(), " ") if " " in text.strip() else (list(text), "")
    start = number % len(parts)
    return glue.join(parts[start:] + parts[:start])
