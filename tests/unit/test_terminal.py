"""What a result looks like on a terminal."""

import io

from rich.console import Console

from pipeline.terminal import show
from schemas.result import FusedResult
from tests.browser import page_samples as samples


def shown(result: FusedResult) -> list[str]:
    out = io.StringIO()
    show(Console(file=out, width=200), "clip.mp4", result, budget_ms=500)
    return [" ".join(line.split()) for line in out.getvalue().splitlines()]


def test_a_partial_answer_says_what_is_missing_and_which_verdict_is_not_known():
    lines = shown(samples.partial_result())
    assert [line for line in lines if line.startswith(("missing", "safety", "sentiment not"))] == [
        "missing captions were not read because of a fault",
        "missing none of the 7.5 s of speech was written down in time",
        "missing the file ends early: only 88 % of it is there",
        "missing parts of the file are damaged",
        "sentiment not known",
        "safety not known",
    ]


def test_a_verdict_says_what_it_rests_on():
    whole = "the pictures, the captions, the speech, the title and the description"
    assert f"safety safe 0.98, from {whole}" in shown(samples.rich_result())
