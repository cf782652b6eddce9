"""The report in a real browser, opened from disk."""

from pathlib import Path

import pytest
from playwright.sync_api import BrowserContext, Page, expect

from tests.browser import page_samples as samples
from tests.browser.conftest import KINDS, OpenPage, address

pytestmark = pytest.mark.browser

ALL = ("index", *KINDS, "playable")


def rectangle(page: Page, selector: str) -> dict[str, float]:
    box = page.locator(selector).first.bounding_box()
    assert box is not None, selector
    return {k: float(v) for k, v in box.items()}


@pytest.mark.parametrize("kind", ALL)
def test_pages_fit_any_screen(open_page: OpenPage, kind: str) -> None:
    page = open_page(kind)
    for width in (320, 360, 720, 960, 1280, 2400):
        page.set_viewport_size({"width": width, "height": 800})
        assert page.evaluate("document.documentElement.scrollWidth") <= width


def test_hostile_strings_run_nothing(open_page: OpenPage) -> None:
    page = open_page("hostile")
    page.evaluate("document.querySelector('details').open = true")
    expect(page.locator("h1")).to_have_text(samples.HOSTILE.strip())
    assert page.locator("img[src='x'], script:not([src]):not([type='application/json'])").count() == 0
    # The console check of the fixture would also show a script that the policy had to stop.


def test_the_policy_stops_scripts_styles_and_requests_even_if_markup_got_in(
    browser: BrowserContext, report: Path
) -> None:
    page = browser.new_page()
    page.goto(address(report, "rich"))
    page.evaluate(
        """document.body.insertAdjacentHTML('beforeend',
             '<img src="x" onerror="window.ran = 1"><p id="p" style="color: rgb(1, 2, 3)"></p>')"""
    )
    page.wait_for_timeout(200)
    assert page.evaluate("window.ran") is None
    assert page.evaluate("getComputedStyle(document.querySelector('#p')).color") != "rgb(1, 2, 3)"
    with pytest.raises(Exception, match="Failed to fetch"):
        page.evaluate("fetch('http://127.0.0.1:9/')")
    page.close()


@pytest.mark.parametrize("place", ["#screen", ".frames li:nth-child(2) .picture"])
@pytest.mark.parametrize("width", [360, 1280])
def test_boxes_lie_on_the_picture_where_the_result_says(open_page: OpenPage, place: str, width: int) -> None:
    page = open_page("partial", width=width)
    page.locator(".frames a.picture").nth(1).focus()
    page.keyboard.press("ArrowRight")
    page.keyboard.press("ArrowLeft")  # the second frame is current now, also on the large screen
    picture = rectangle(page, f"{place} img")
    drawn = page.locator(f"{place} .object-box .edge")
    found = [d for d in samples.partial_result().detections if d.t_s == samples.TIMES_S[1]]
    assert drawn.count() == len(found) == 3
    for i, detection in enumerate(found):
        edge = drawn.nth(i).evaluate(
            "e => { const b = e.getBoundingClientRect(); return [b.x, b.y, b.width, b.height] }"
        )
        x0, y0, x1, y1 = detection.box
        expected = [
            picture["x"] + x0 * picture["width"],
            picture["y"] + y0 * picture["height"],
            (x1 - x0) * picture["width"],
            (y1 - y0) * picture["height"],
        ]
        assert edge == pytest.approx(expected, abs=2.5)  # half of the line's width, on each side


def test_boxes_can_be_switched_off_and_on(open_page: OpenPage) -> None:
    page = open_page("rich")
    objects, texts = page.locator("#screen .object-box").first, page.locator("#screen .text-box").first
    page.get_by_role("checkbox", name="Objects").uncheck()
    expect(objects).to_be_hidden()
    expect(texts).to_be_visible()
    page.get_by_role("checkbox", name="Text").uncheck()
    expect(texts).to_be_hidden()
    page.get_by_role("checkbox", name="Objects").check()
    expect(objects).to_be_visible()


def test_a_click_opens_the_large_view_and_keys_turn_and_close_it(open_page: OpenPage) -> None:
    page = open_page("rich")
    viewer = page.locator("#viewer")
    page.locator(".frames a.picture").nth(1).click()
    expect(viewer).to_be_visible()
    expect(page.locator("#viewer-title")).to_have_text("0:02.8, frame 2 of 4")
    expect(page.locator("#viewer-words")).to_have_text("person ×2, chair, “语音识别公开课 第三讲”")
    page.keyboard.press("ArrowRight")
    expect(page.locator("#viewer-title")).to_have_text("0:05.2, frame 3 of 4")
    page.keyboard.press("End")
    page.keyboard.press("ArrowRight")
    expect(page.locator("#viewer-title")).to_have_text("0:07.6, frame 4 of 4")
    expect(page.get_by_role("button", name="Next frame")).to_be_disabled()
    page.keyboard.press("Escape")
    expect(viewer).to_be_hidden()
    expect(page.locator(".frames a.picture").nth(3)).to_be_focused()


@pytest.mark.parametrize("width", [360, 1280])
def test_the_large_picture_fits_and_its_boxes_too(open_page: OpenPage, width: int) -> None:
    page = open_page("rich", width=width)
    page.locator(".frames a.picture").nth(1).click()
    picture, overlay = (rectangle(page, f"#viewer .viewer-picture {part}") for part in ("img", ".overlay"))
    assert picture == pytest.approx(overlay, abs=1)
    assert picture["width"] <= width
    assert picture["y"] + picture["height"] <= 800
    assert picture["width"] / picture["height"] == pytest.approx(16 / 9, rel=0.01)


def test_arrow_keys_move_along_the_frames_with_one_tab_stop(open_page: OpenPage) -> None:
    page = open_page("rich")
    frames = page.locator(".frames a.picture")
    frames.first.focus()
    for key, at in (("ArrowRight", 1), ("ArrowDown", 2), ("ArrowLeft", 1), ("End", 3), ("ArrowRight", 3), ("Home", 0)):
        page.keyboard.press(key)
        expect(frames.nth(at)).to_be_focused()
        expect(frames.nth(at)).to_have_attribute("aria-current", "true")
    page.keyboard.press("Tab")
    assert page.evaluate("document.activeElement.closest('.frames')") is None


FOCUS = """() => {
  const here = document.activeElement;
  const drawn = here.querySelector('.mark-body, circle');
  const visible = getComputedStyle(here).outlineStyle !== 'none'
    || Boolean(drawn) && parseFloat(getComputedStyle(drawn).strokeWidth) >= 4;
  return [here.id || here.getAttribute('class') || here.getAttribute('href') || here.tagName, visible];
}"""


def test_everything_can_be_reached_and_focus_is_always_visible(open_page: OpenPage) -> None:
    page = open_page("rich")
    reached: list[str] = []
    while len(reached) < 100:
        page.keyboard.press("Tab")
        name, visible = page.evaluate(FOCUS)
        if name == "BODY" or reached[:1] == [name]:
            break
        assert visible, f"no visible focus on {name}"
        reached.append(name)
    expected = {"skip", "brand", "show-objects", "picture wide", "scrub", "frame-tick", "mark speech", "result.json"}
    assert expected - set(reached) == {"result.json"}  # inside the closed raw result
    assert reached.count("frame-tick") == reached.count("picture wide") == 1  # a tab stop a group


def test_the_skip_link_leads_past_the_navigation(open_page: OpenPage) -> None:
    page = open_page("rich")
    page.keyboard.press("Tab")
    expect(page.get_by_role("link", name="Skip to the content")).to_be_focused()
    page.keyboard.press("Enter")
    expect(page.locator("main")).to_be_focused()


def test_the_page_has_landmarks_and_one_title(open_page: OpenPage) -> None:
    page = open_page("rich")
    for role in ("banner", "navigation", "main", "contentinfo"):
        expect(page.get_by_role(role)).to_have_count(1)
    expect(page.locator("h1")).to_have_count(1)
    for name in ("Timeline", "Labels", "Where the time went", "Raw result"):
        expect(page.get_by_role("region", name=name)).to_be_visible()


@pytest.mark.parametrize("kind", ["rich", "partial", "sound"])
def test_the_waterfall_shows_every_stage_against_the_budget_line(open_page: OpenPage, kind: str) -> None:
    page = open_page(kind)
    result = {"rich": samples.rich_result, "partial": samples.partial_result, "sound": samples.sound_result}[kind]()
    rows = page.locator("tbody .stage")
    assert sorted(rows.evaluate_all("rows => rows.map(r => r.dataset.stage)")) == sorted(result.stages)
    for name, report in result.stages.items():
        row = page.locator(f"[data-stage='{name}']")
        expect(row).to_contain_text(report.status.value.replace("_", " "))
        if report.error:
            expect(row).to_contain_text(report.error)
        if report.model and report.elapsed_ms:
            expect(row).to_contain_text(report.model)
    lines = page.locator(".budget-line").evaluate_all("lines => lines.map(l => l.getBoundingClientRect().x)")
    if kind == "sound":
        assert lines == []
    else:
        assert len(lines) == len(result.stages) + 1
        assert max(lines) - min(lines) < 0.5  # one straight line through all rows


def test_bars_and_budget_line_share_one_scale(open_page: OpenPage) -> None:
    page = open_page("rich")
    axis = rectangle(page, "[data-stage='ocr'] .bar-cell > svg")
    queue, run = (rectangle(page, f"[data-stage='ocr'] .{part}") for part in ("bar-queue", "bar-run"))
    line = rectangle(page, "[data-stage='ocr'] .budget-line")
    per_ms = (line["x"] + line["width"] / 2 - axis["x"]) / 500
    assert queue["x"] - axis["x"] == pytest.approx(96 * per_ms, abs=1)
    assert queue["width"] == pytest.approx(12 * per_ms, abs=1)
    assert run["x"] + run["width"] - axis["x"] == pytest.approx(300 * per_ms, abs=1)


def test_a_click_on_the_timeline_goes_there(open_page: OpenPage) -> None:
    page = open_page("rich")
    page.locator(".lane-shots .track svg").first.click(position={"x": 1, "y": 1})  # between the marks
    expect(page.locator("#now")).to_have_text("0:00.0")
    page.get_by_role("link", name="laptop, 0:05.2").click()
    expect(page.locator("#now")).to_have_text("0:05.2")
    expect(page.locator(".frames a.picture").nth(2)).to_have_attribute("aria-current", "true")
    expect(page.locator("#speech-2")).to_have_attribute("aria-current", "true")
    page.locator("#scrub").focus()
    page.keyboard.press("Home")
    expect(page.locator("#now")).to_have_text("0:00.0")


def test_seeking_moves_the_clip(open_page: OpenPage) -> None:
    page = open_page("playable")
    page.wait_for_function("document.querySelector('#player')?.readyState > 0")
    page.locator("#speech-2 .time").click()
    page.wait_for_function("Math.abs(document.querySelector('#player').currentTime - 4.3) < 0.1")
    expect(page.locator("#screen .overlay")).to_be_hidden()  # no sampled frame is here: no boxes over other pictures
    page.locator(".frame-tick").nth(1).click()
    page.wait_for_function("Math.abs(document.querySelector('#player').currentTime - 2.8) < 0.1")
    expect(page.locator("#screen .object-box")).to_have_count(3)
    expect(page.locator("#screen .overlay")).to_be_visible()


def test_a_clip_that_does_not_play_leaves_the_frames(browser: BrowserContext, report: Path) -> None:
    clip = next(report.glob("clips/*/clip.mp4"))
    kept = clip.read_bytes()
    clip.write_bytes(b"not a video")
    page = browser.new_page()
    page.goto(address(report, "playable"))
    expect(page.locator("#screen img")).to_be_visible()
    page.locator("#speech-2 .time").click()
    expect(page.locator("#now")).to_have_text("0:04.3")
    expect(page.locator("#screen img")).to_have_attribute("src", "frame-003.jpg")  # 5.2 s is the nearest
    expect(page.locator("#screen .object-box")).to_have_count(2)
    page.locator("#screen img").click()
    expect(page.locator("#viewer-title")).to_have_text("0:05.2, frame 3 of 4")
    page.close()
    clip.write_bytes(kept)


def test_pages_can_be_read_without_scripts(browser: BrowserContext, report: Path) -> None:
    page = browser.new_page()
    page.route("**/page.js", lambda route: route.abort())
    page.goto(address(report, "rich"))
    for text in ("Complete", "391 ms", "Welcome back to the workshop", "语音识别公开课 第三讲", "whisper-base"):
        expect(page.get_by_text(text).locator("visible=true").first).to_be_visible()
    expect(page.get_by_role("button", name="Copy")).to_be_hidden()
    expect(page.locator("#scrub")).to_be_hidden()
    page.locator("summary").click()
    expect(page.locator("pre")).to_contain_text('"video_id": "workshop-01"')
    page.locator(".frames a.picture").first.click()
    assert page.url.endswith("frame-001.jpg")
    page.close()


def test_the_raw_result_can_be_copied(open_page: OpenPage, browser: BrowserContext) -> None:
    page = open_page("rich")
    page.evaluate("navigator.clipboard.writeText = async (text) => { window.copied = text }")
    page.locator("summary").click()
    page.get_by_role("button", name="Copy").click()
    expect(page.locator("#copied")).to_have_text("Copied.")
    assert type(samples.rich_result()).model_validate_json(page.evaluate("window.copied")) == samples.rich_result()


def test_the_index_leads_to_every_clip_and_back(open_page: OpenPage) -> None:
    page = open_page("index")
    cards = page.locator(".card")
    assert cards.count() == len(ALL) - 1
    cards.nth(2).click()
    expect(page.locator("h1")).to_have_text("list.m3u8")
    page.get_by_role("link", name="Next clip").click()
    expect(page.locator("h1")).to_have_text("نشرة الأخبار.wav")
    page.get_by_role("link", name="All clips").click()
    expect(page.locator(".card").first).to_be_visible()


def test_the_index_can_be_narrowed_to_one_status(open_page: OpenPage) -> None:
    page = open_page("index")
    page.get_by_text("Rejected 1").click()
    expect(page.locator(".card:visible")).to_have_count(1)
    page.get_by_text("All 7").click()
    expect(page.locator(".card:visible")).to_have_count(7)


POOR_CONTRASTS = """() => {
  // Relative luminance and contrast as WCAG 2 defines them. A canvas turns any notation of a colour into bytes.
  const probe = document.createElement('canvas').getContext('2d', { willReadFrequently: true });
  const bytes = (colour) => {
    probe.clearRect(0, 0, 1, 1);
    probe.fillStyle = colour;
    probe.fillRect(0, 0, 1, 1);
    return [...probe.getImageData(0, 0, 1, 1).data];
  };
  const luminance = (colour) => bytes(colour).slice(0, 3).map((c) => c / 255)
    .map((c) => (c <= 0.04045 ? c / 12.92 : ((c + 0.055) / 1.055) ** 2.4))
    .reduce((sum, c, i) => sum + c * [0.2126, 0.7152, 0.0722][i], 0);
  const ground = (element) => {
    const body = element.closest('.mark') && element.closest('svg').querySelector(':scope > .mark-body');
    if (body) return getComputedStyle(body).fill;
    for (let e = element; e; e = e.parentElement) {
      const colour = getComputedStyle(e).backgroundColor;
      if (bytes(colour)[3] === 255) return colour;
    }
    return 'white';
  };
  const elsewhere = '.overlay, dialog, script, title, .unseen, .skip';
  const poor = new Set();
  const texts = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
  while (texts.nextNode()) {
    const element = texts.currentNode.parentElement;
    if (!texts.currentNode.textContent.trim() || element.closest(elsewhere)) continue;
    const style = getComputedStyle(element);
    const pair = [luminance(element.closest('svg') ? style.fill : style.color), luminance(ground(element))];
    const ratio = (Math.max(...pair) + 0.05) / (Math.min(...pair) + 0.05);
    if (ratio < 4.5) poor.add(`${element.tagName}.${element.getAttribute('class')} ${ratio.toFixed(2)}`);
  }
  return [...poor];
}"""


@pytest.mark.parametrize("kind", ALL)
def test_text_has_enough_contrast_in_light_and_dark(open_page: OpenPage, kind: str) -> None:
    page = open_page(kind)
    assert page.evaluate(POOR_CONTRASTS) == []
    page.emulate_media(color_scheme="dark")
    assert page.evaluate(POOR_CONTRASTS) == []


def test_dark_is_dark_and_light_is_light(open_page: OpenPage) -> None:
    grounds = {
        scheme: open_page("rich", scheme=scheme).evaluate("getComputedStyle(document.body).backgroundColor")
        for scheme in ("light", "dark")
    }
    assert grounds == {"light": "rgb(246, 245, 241)", "dark": "rgb(19, 20, 23)"}


def test_a_page_prints_without_its_controls(open_page: OpenPage) -> None:
    page = open_page("rich")
    page.emulate_media(media="print", color_scheme="dark")
    for hidden in (".clips-nav", ".switches", ".raw"):
        expect(page.locator(hidden)).to_be_hidden()
    expect(page.locator(".waterfall")).to_be_visible()
    assert page.evaluate("getComputedStyle(document.body).backgroundColor") == "rgb(255, 255, 255)"
