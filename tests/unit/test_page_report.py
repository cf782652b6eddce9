"""The report's folder: what is written, what is replaced, and what is never touched."""

import json
import os
import time
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from pipeline.page import PageEntry, Report, write_report
from pipeline.page.files import MAX_PLAYER_BYTES, clip_folder, copy_player
from schemas.media import Frame
from schemas.result import FusedResult
from tests.browser import page_samples as samples

RICH = PageEntry(samples.rich_result(), samples.frames(), "workshop.mp4", budget_ms=500)


def page_of(index: Path, number: int = 1) -> Path:
    return next((index.parent / "clips").glob(f"{number:03d}*")) / "index.html"


def snapshot(folder: Path) -> dict[str, bytes]:
    return {str(p.relative_to(folder)): p.read_bytes() for p in sorted(folder.rglob("*")) if p.is_file()}


def test_every_entry_has_its_page_and_the_index_links_to_all_of_them(tmp_path: Path) -> None:
    entries = samples.sample_entries()
    index = write_report(tmp_path / "report", entries)
    assert index == tmp_path / "report" / "index.html"
    for number in range(1, len(entries) + 1):
        page = page_of(index, number)
        assert page.is_file()
        assert f'href="clips/{page.parent.name}/index.html"' in index.read_text("utf-8")


def test_a_report_about_nothing_is_still_a_page(tmp_path: Path) -> None:
    assert "No clips were given." in write_report(tmp_path, []).read_text("utf-8")


def test_the_result_lies_beside_its_page_and_round_trips(tmp_path: Path) -> None:
    page = page_of(write_report(tmp_path, [RICH]))
    assert FusedResult.model_validate_json((page.parent / "result.json").read_bytes()) == RICH.result


def test_the_same_entries_give_the_same_bytes(tmp_path: Path) -> None:
    write_report(tmp_path / "a", samples.sample_entries())
    write_report(tmp_path / "b", samples.sample_entries())
    assert snapshot(tmp_path / "a") == snapshot(tmp_path / "b")


def test_frames_are_saved_in_order_of_time_and_shrunk_to_a_screen(tmp_path: Path) -> None:
    large = Frame(0, 5.0, np.zeros((1080, 1920, 3), np.uint8), 1920, 1080)
    small = Frame(1, 1.0, np.full((2, 2, 3), 255, np.uint8), 2, 2)
    page = page_of(write_report(tmp_path, [replace(RICH, frames=(large, small))]))
    sizes = []
    for name in ("frame-001.jpg", "frame-002.jpg"):
        with Image.open(page.parent / name) as picture:
            sizes.append(picture.size)
    assert sizes == [(2, 2), (1280, 720)]


def test_a_second_run_replaces_the_first(tmp_path: Path) -> None:
    write_report(tmp_path, samples.sample_entries())
    write_report(tmp_path, [RICH])
    write_report(tmp_path.parent / "once", [RICH])
    assert snapshot(tmp_path) == snapshot(tmp_path.parent / "once")


def test_files_that_are_not_of_the_report_stay(tmp_path: Path) -> None:
    (tmp_path / "notes.txt").write_text("mine")
    (tmp_path / "sub").mkdir()
    (tmp_path / "sub" / "deep.txt").write_text("mine too")
    for _ in range(2):
        write_report(tmp_path, [RICH])
    assert (tmp_path / "notes.txt").read_text() == "mine"
    assert (tmp_path / "sub" / "deep.txt").read_text() == "mine too"


@pytest.mark.parametrize("name", ["index.html", "clips", "assets"])
def test_a_name_that_something_else_holds_is_refused_and_left_alone(tmp_path: Path, name: str) -> None:
    (tmp_path / name).write_text("somebody else's")
    with pytest.raises(FileExistsError, match="choose another folder"):
        write_report(tmp_path, [RICH])
    assert snapshot(tmp_path) == {name: b"somebody else's"}


def test_a_run_that_fails_leaves_the_report_before_it_whole(tmp_path: Path) -> None:
    write_report(tmp_path, [RICH])
    before = snapshot(tmp_path)
    broken = Frame(0, 0.0, np.zeros((4, 4), np.float64), 4, 4)  # type: ignore[arg-type]
    with pytest.raises(Exception, match=r".+"):
        write_report(tmp_path, [RICH, replace(RICH, frames=(broken,))])
    assert snapshot(tmp_path) == before


def test_a_report_that_is_not_finished_leaves_no_trace(tmp_path: Path) -> None:
    with Report(tmp_path) as report:
        report.add(RICH)
    assert list(tmp_path.iterdir()) == []


def test_a_link_in_the_folder_is_replaced_and_not_followed(tmp_path: Path) -> None:
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    (elsewhere / "keep.txt").write_text("keep")
    report = tmp_path / "report"
    write_report(report, [RICH])
    (report / "clips").rename(report / "moved")
    (report / "clips").symlink_to(elsewhere)
    write_report(report, [RICH])
    assert not (report / "clips").is_symlink()
    assert snapshot(elsewhere) == {"keep.txt": b"keep"}


@pytest.mark.parametrize(
    "name",
    [
        "../../etc/passwd", "/etc/passwd", "..", ".", "", "a\nb", "a\0b", "con", "x" * 5000, "视频.mp4", "<b>\"'&.mp4",
        os.fsdecode(b"\xff\xfe clip.mp4"), "\u202egnp.exe", "clip.mp4/", "C:\\clip.mp4", "-rf",
    ],
)  # fmt: skip
def test_any_name_gives_a_folder_of_its_own_below_clips(tmp_path: Path, name: str) -> None:
    index = write_report(tmp_path, [replace(RICH, name=name), replace(RICH, name=name)])
    folders = sorted(p.name for p in (tmp_path / "clips").iterdir())
    assert [f[:3] for f in folders] == ["001", "002"]
    assert all(len(f) <= 44 and set(f) <= set("abcdefghijklmnopqrstuvwxyz0123456789-") for f in folders)
    assert page_of(index, 2).is_file()


def test_folder_names_say_which_clip_it_is() -> None:
    assert clip_folder(7, "Café (final cut).MP4") == "007-cafe-final-cut-mp4"


def test_a_clip_that_browsers_play_is_copied_beside_its_page(tmp_path: Path) -> None:
    clip = tmp_path / "clip from a camera.bin"
    clip.write_bytes(b"moving pictures")
    page = page_of(write_report(tmp_path / "report", [replace(RICH, media_path=clip)]))
    assert (page.parent / "clip.mp4").read_bytes() == b"moving pictures"
    assert '<video id="player" controls playsinline preload="metadata" src="clip.mp4"' in page.read_text("utf-8")


@pytest.mark.parametrize(
    ("facts", "file"),
    [
        ({"container": "mov,mp4,m4a,3gp,3g2,mj2", "video_codec": "h264", "audio_codec": None}, "clip.mp4"),
        ({"container": "matroska,webm", "video_codec": "vp9", "audio_codec": "opus"}, "clip.webm"),
        ({"container": "mp3", "video_codec": None, "audio_codec": "mp3"}, "clip.mp3"),
        ({"container": "wav", "video_codec": None, "audio_codec": "pcm_s16le"}, "clip.wav"),
        ({"container": "matroska,webm", "video_codec": "h264"}, None),
        ({"container": "avi", "video_codec": "h264"}, None),
        ({"container": "mov,mp4,m4a,3gp,3g2,mj2", "video_codec": "prores"}, None),
        ({"container": "mov,mp4,m4a,3gp,3g2,mj2", "video_codec": None, "audio_codec": None}, None),
    ],
)
def test_only_what_browsers_play_is_copied(tmp_path: Path, facts: dict[str, str | None], file: str | None) -> None:
    clip = tmp_path / "source"
    clip.write_bytes(b"bytes")
    player = copy_player(clip, tmp_path, media=samples.media(**facts))
    assert (player.file if player else None) == file


def test_large_missing_and_odd_sources_are_left_out(tmp_path: Path) -> None:
    large, pipe = tmp_path / "large", tmp_path / "pipe"
    with large.open("wb") as handle:
        handle.truncate(MAX_PLAYER_BYTES + 1)
    os.mkfifo(pipe)
    started = time.monotonic()
    for source in (large, pipe, tmp_path, tmp_path / "missing", Path("/dev/zero"), None):
        assert copy_player(source, tmp_path, media=samples.media()) is None
    assert time.monotonic() - started < 5  # a pipe without a writer must not block
    assert not list(tmp_path.glob("clip.*"))


def test_the_folder_is_self_contained(tmp_path: Path) -> None:
    index = write_report(tmp_path, samples.sample_entries())
    assert sorted(p.name for p in tmp_path.iterdir()) == ["assets", "clips", "halfsecond-report.txt", "index.html"]
    assert sorted(p.name for p in (tmp_path / "assets").iterdir()) == ["icon.svg", "page.css", "page.js"]
    embedded = page_of(index).read_text("utf-8").split('<script type="application/json" id="result">')[1]
    wire = json.loads(embedded.split("</script>")[0])
    assert FusedResult.model_validate(wire) == RICH.result
