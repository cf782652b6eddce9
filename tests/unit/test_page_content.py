"""What the pages say, and that nothing from outside becomes markup."""

import re
from html.parser import HTMLParser
from pathlib import Path

import pytest

from pipeline.page import PageEntry, write_report
from pipeline.page.advice import ADVICE
from pipeline.page.view import judge
from schemas.errors import ErrorCode
from schemas.result import ErrorInfo, FusedResult, ResultStatus, StageReport, StageStatus
from tests.browser import page_samples as samples


class Markup(HTMLParser):
    """Every element with its attributes, and the text between them."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.elements: list[tuple[str, dict[str, str | None]]] = []
        self.text: list[str] = []
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.elements.append((tag, dict(attrs)))

    def handle_data(self, data: str) -> None:
        self.text.append(data)


@pytest.fixture(scope="module")
def pages(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """The sample report's pages by kind."""
    index = write_report(tmp_path_factory.mktemp("report"), samples.sample_entries())
    folders = sorted((index.parent / "clips").iterdir())
    kinds = ("rich", "partial", "rejected", "sound", "hostile", "crowded")
    read = {kind: (folder / "index.html").read_text("utf-8") for kind, folder in zip(kinds, folders, strict=True)}
    return read | {"index": index.read_text("utf-8")}


def words(page: str) -> str:
    return " ".join(" ".join(Markup(page).text).split())


def write_one(folder: Path, result: FusedResult, *, name: str = "clip") -> str:
    index = write_report(folder, [PageEntry(result, samples.frames(), name, budget_ms=500)])
    return next((index.parent / "clips").iterdir()).joinpath("index.html").read_text("utf-8")


def test_nothing_from_outside_becomes_markup(pages: dict[str, str]) -> None:
    for page in pages.values():
        elements = Markup(page).elements
        scripts = [attrs for tag, attrs in elements if tag == "script"]
        assert all(set(attrs) == {"src", "defer"} or attrs.get("type") == "application/json" for attrs in scripts)
        assert len(scripts) <= 2
        assert not [a for _, attrs in elements for a in attrs if a.startswith("on") or a in {"style", "srcdoc"}]
        assert all(re.fullmatch(r"[\w./-]*frame-\d+\.jpg", a["src"] or "") for tag, a in elements if tag == "img")
        assert "<script>alert" not in page
        assert str(7 * 6163) not in page


def test_hostile_text_is_shown_as_it_is(pages: dict[str, str]) -> None:
    assert samples.HOSTILE.strip() in "".join(Markup(pages["hostile"]).text)


def test_no_page_names_another_host_or_a_script_address(pages: dict[str, str]) -> None:
    for page in pages.values():
        links = [a[k] or "" for _, a in Markup(page).elements for k in ("href", "src", "poster", "action") if k in a]
        assert links
        assert all(
            re.match(r"(#|\.\./|assets/|clips/|index\.html|frame-|clip\.|result\.json)", link) for link in links
        ), links


def test_the_policy_of_every_page_allows_only_its_own_files(pages: dict[str, str]) -> None:
    for page in pages.values():
        policy = next(a["content"] for _, a in Markup(page).elements if a.get("http-equiv"))
        assert policy is not None
        assert policy.startswith("default-src 'none';")
        assert "unsafe" not in policy
        assert "http" not in policy


@pytest.mark.parametrize(
    ("kind", "status", "latency"),
    [
        ("rich", "Complete", "of 500 ms allowed, 109 ms to spare"),
        ("partial", "Partial", "of 500 ms allowed, 7 ms late"),
        ("rejected", "Rejected", "of 500 ms allowed, 489 ms to spare"),
        ("sound", "Complete", "no deadline was set"),
    ],
)
def test_status_and_latency_come_first(pages: dict[str, str], kind: str, status: str, latency: str) -> None:
    text = words(pages[kind])
    assert 0 < text.index(status, text.index("All clips")) < text.index(latency)


def test_a_rich_page_shows_every_part_of_its_result(pages: dict[str, str]) -> None:
    text = words(pages["rich"])
    result = samples.rich_result()
    assert result.speech
    assert result.plan
    expected = [result.summary, result.plan.reason, *result.keywords, "960 × 540", "h264", "4 of 240"]
    expected += [s.text for s in result.speech.segments] + [t.text for t in result.text]
    expected += [x.label for x in (*result.topics, *result.scene, *result.objects)] + list(result.stages)
    assert [part for part in expected if part not in text] == []


def test_transcript_and_captions_carry_their_language(pages: dict[str, str]) -> None:
    elements = Markup(pages["rich"]).elements
    assert [a.get("lang") for tag, a in elements if tag == "p" and "lang" in a] == ["en", "en", "zh", "zh", ""]
    assert ("p", {"dir": "auto", "lang": "ar"}) in Markup(pages["sound"]).elements


def test_a_partial_page_says_what_is_missing_and_why(pages: dict[str, str]) -> None:
    text = words(pages["partial"])
    assert "Something is missing: captions were not read because of a fault; " in text
    assert (
        "; none of the 7.5 s of speech was written down in time; the file ends early: only 88 % of it is there" in text
    )
    assert "Not known: none of the 7.5 s of speech was written down in time." in text
    assert "Not known: captions were not read because of a fault." in text
    assert "From the title only." in text
    assert "The file ends 1.2 s before its header says. TRUNCATED" in text


def test_a_verdict_says_what_it_rests_on(pages: dict[str, str]) -> None:
    rests = "positive 0.71 vader 0.42 snownlp 0.88 labels 0.66 From the pictures, the captions, the speech, the title"
    assert rests in words(pages["rich"])


def test_a_rejected_page_says_what_went_wrong_and_what_to_do(pages: dict[str, str]) -> None:
    text = words(pages["rejected"])
    assert "The file is a playlist (hls) that names other files." in text
    assert ADVICE[ErrorCode.PLAYLIST_REFUSED] in text
    assert "Timeline" not in text


def test_a_clip_without_pictures_says_so(pages: dict[str, str]) -> None:
    assert "This clip has no pictures." in words(pages["sound"])
    assert "<img" not in pages["sound"]


def test_there_is_advice_for_every_error_code() -> None:
    assert set(ADVICE) == set(ErrorCode)


@pytest.mark.parametrize("status", list(StageStatus))
def test_every_way_a_stage_can_end_is_visible(tmp_path: Path, status: StageStatus) -> None:
    report = StageReport(status=status, start_ms=10, elapsed_ms=20, error=ErrorCode.MODEL_FAILED)
    page = write_one(tmp_path, samples.rich_result().model_copy(update={"stages": samples.stages(detect=report)}))
    row = page.split('data-stage="detect"')[1].split("</tr>")[0]
    assert status.value.replace("_", " ") in words(row)
    assert "MODEL_FAILED" in row


def test_a_late_result_is_called_late_even_when_complete() -> None:
    verdict = judge(samples.rich_result().model_copy(update={"latency_ms": 640.0}), budget_ms=500)
    assert (verdict.in_time, verdict.against) == (False, "of 500 ms allowed, 140 ms late")


def test_an_expired_result_has_a_page(tmp_path: Path) -> None:
    late = {name: StageReport(status=StageStatus.TIMED_OUT, elapsed_ms=500) for name in ("probe", "frames", "audio")}
    result = FusedResult(
        pipeline_version="0",
        job_id="j",
        video_id="v",
        status=ResultStatus.EXPIRED,
        error=ErrorInfo(code=ErrorCode.DEADLINE_EXCEEDED, message="Nothing was ready.", retryable=True),
        stages=late,
        latency_ms=503,
    )
    text = words(write_one(tmp_path, result))
    assert (
        "The deadline passed before anything was ready: the file was not examined in time; the sound was not decoded"
        in text
    )
    assert "the same input may succeed later" in text


def test_names_that_are_not_text_are_made_visible(tmp_path: Path) -> None:
    page = write_one(tmp_path, samples.rich_result(), name="a\nb\x1b[31m\udcff\x00.mp4")
    assert "a␊b␛[31m�␀.mp4" in page


def test_a_very_long_name_is_shortened_in_the_middle(pages: dict[str, str]) -> None:
    assert "x" * 80 + "…" + "x" * 80 in pages["crowded"]
    assert "x" * 161 not in pages["crowded"]


def test_a_crowded_page_stays_small(pages: dict[str, str]) -> None:
    assert len(pages["crowded"]) < 700_000
