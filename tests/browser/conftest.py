"""A real Chromium, driven by Playwright, on a report written to disk and opened from there."""

import shutil
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from playwright.sync_api import BrowserContext, Page, sync_playwright

from pipeline.page import PageEntry, write_report
from tests.browser import page_samples as samples

NAMES = ("chromium", "chromium-browser", "google-chrome")
ARGUMENTS = (
    "--headless", "--no-sandbox", "--disable-gpu", "--disable-background-networking", "--disable-component-update",
    "--disable-sync", "--no-first-run", "--disable-quic",
)  # fmt: skip
KINDS = ("rich", "partial", "rejected", "sound", "hostile", "crowded")

OpenPage = Callable[..., Page]


@pytest.fixture(scope="session")
def chromium() -> str:
    """Path of an installed Chromium; without one the tests are skipped, visibly."""
    found = next((path for name in NAMES if (path := shutil.which(name))), None)
    if found is None:
        pytest.skip(f"no browser: none of {', '.join(NAMES)} is on the PATH")
    return found


@pytest.fixture(scope="module")
def browser(chromium: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[BrowserContext]:
    """One browser with a fresh profile. Not for the whole session: Playwright's synchronous API keeps an event loop
    running in this thread, and no asynchronous test could run beside it."""
    profile = tmp_path_factory.mktemp("profile")
    with sync_playwright() as playwright:
        context = playwright.chromium.launch_persistent_context(
            profile, executable_path=chromium, args=list(ARGUMENTS), viewport={"width": 1280, "height": 800}
        )
        yield context
        context.close()


@pytest.fixture(scope="session")
def report(tmp_path_factory: pytest.TempPathFactory, clips: Path) -> Path:
    """The samples' report, written, then moved: nothing in it may depend on where it was made."""
    written = tmp_path_factory.mktemp("written") / "report"
    entries = samples.sample_entries()
    clip = next((c for c in (clips / "composite/talk_en_jfk.mp4", *sorted(clips.rglob("*.mp4"))) if c.is_file()), None)
    entries.append(PageEntry(samples.rich_result(), samples.frames(), "playable", clip, budget_ms=500))
    write_report(written, entries)
    return written.rename(tmp_path_factory.mktemp("moved") / "somewhere else (2)")


@pytest.fixture
def open_page(browser: BrowserContext, report: Path) -> Iterator[OpenPage]:
    """Open the page of one kind of clip. At the end of the test: no console errors, no requests but for own files."""
    pages: list[Page] = []
    problems: list[str] = []

    def opened(kind: str, *, width: int = 1280, scheme: str = "light") -> Page:
        page = browser.new_page()
        pages.append(page)
        page.on("console", lambda m: problems.append(m.text) if m.type in {"error", "warning"} else None)
        page.on("pageerror", lambda error: problems.append(str(error)))
        page.on("dialog", lambda dialog: (problems.append(f"dialog {dialog.message}"), dialog.dismiss()))
        page.on("request", lambda r: None if r.url.startswith(report.as_uri()) else problems.append(r.url))
        page.set_viewport_size({"width": width, "height": 800})
        page.emulate_media(color_scheme=scheme, reduced_motion="reduce")  # type: ignore[arg-type]
        page.goto(address(report, kind))
        return page

    yield opened
    for page in pages:
        page.close()
    assert problems == []


def address(report: Path, kind: str) -> str:
    if kind == "index":
        return (report / "index.html").as_uri()
    number = (*KINDS, "playable").index(kind) + 1
    return next((report / "clips").glob(f"{number:03d}*")).joinpath("index.html").as_uri()
