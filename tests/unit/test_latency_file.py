"""What stages cost is kept between runs, for the machine it was measured on."""

from pathlib import Path

import pytest

from pipeline.latency import LatencyBook
from pipeline.latency_file import LatencyFile


def book() -> LatencyBook:
    return LatencyBook({"ocr": 100.0})


def file(folder: Path, *, cores: int = 2, **held_to: str) -> LatencyFile:
    return LatencyFile(folder, cores=cores, held_to=held_to)


@pytest.fixture
def learnt() -> LatencyBook:
    subject = book()
    subject.observe("ocr", ms=250, work=1)
    return subject


def test_the_second_start_knows_what_the_first_has_learnt(tmp_path: Path, learnt: LatencyBook):
    file(tmp_path / "new").save(learnt)
    again = book()
    assert file(tmp_path / "new").load_into(again)
    assert again.rate_ms("ocr") == pytest.approx(250)


def test_another_machine_begins_anew(tmp_path: Path, learnt: LatencyBook):
    file(tmp_path).save(learnt)
    for other in (file(tmp_path, cores=1), file(tmp_path, CT2_FORCE_CPU_ISA="AVX2")):
        again = book()
        assert not other.load_into(again)
        assert again.rate_ms("ocr") == 100


@pytest.mark.parametrize("kept", [b"", b"{", b"[1]", b'{"ocr": {"fixed_ms": 0, "rate_ms": -5}}', b"\xff"])
def test_a_file_that_says_nothing_sensible_is_done_without(tmp_path: Path, learnt: LatencyBook, kept: bytes):
    file(tmp_path).save(learnt)
    (path,) = tmp_path.iterdir()
    path.write_bytes(kept)
    again = book()
    assert not file(tmp_path).load_into(again)
    assert again.rate_ms("ocr") == 100


def test_a_folder_that_cannot_be_written_costs_only_the_memory(tmp_path: Path, learnt: LatencyBook):
    (tmp_path / "cache").write_text("no folder")
    file(tmp_path / "cache").save(learnt)
    assert not file(tmp_path / "cache").load_into(book())
