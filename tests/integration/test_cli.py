"""The command as a user runs it: order, exit status, streams, odd names."""

import json
import os
import shlex
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from schemas.result import FusedResult

pytestmark = pytest.mark.models


def halfsecond(
    *arguments: str | bytes | Path, check: int = 0, timeout_s: float = 100, llm: str = "off"
) -> subprocess.CompletedProcess[str]:
    """Run the command; without the language model where a test has nothing to do with it, which saves its start."""
    done = subprocess.run(
        [sys.executable, "-m", "pipeline", *arguments],
        capture_output=True,
        text=True,
        timeout=timeout_s,
        check=False,
        env=os.environ | {"HALFSECOND_LLM": llm},
    )
    assert done.returncode == check, done.stderr
    return done


@pytest.fixture(scope="module")
def odd_folder(tmp_path_factory, clips: Path) -> Path:
    folder = tmp_path_factory.mktemp("odd")
    clip = (clips / "real/store_aisle.mp4").read_bytes()
    (folder / "new\nline \x1b[31m.mp4").write_bytes(clip)
    (folder / os.fsdecode(b"bad\xff\xfe.mp4")).write_bytes(clip)
    (folder / "text.mp4").write_text("this is no video")
    (folder / "empty.mp4").touch()
    return folder


def test_one_line_of_json_for_each_input_in_input_order(weights, odd_folder, clips):
    paths = [
        odd_folder / "text.mp4",
        clips / "real/store_aisle.mp4",
        odd_folder / "missing.mp4",
        odd_folder / os.fsdecode(b"bad\xff\xfe.mp4"),
        odd_folder / "new\nline \x1b[31m.mp4",
    ]
    done = halfsecond("analyze", "--json", "--plan", "glance", *paths, check=3)
    results = [FusedResult.model_validate_json(line) for line in done.stdout.splitlines()]
    assert [result.status for result in results] == ["rejected", "complete", "rejected", "complete", "complete"]
    assert [result.error.code for result in results if result.error] == ["NOT_MEDIA", "NOT_FOUND"]
    assert results[3].source_uri.endswith("bad%FF%FE.mp4")
    assert "\x1b" not in done.stdout


def test_readable_output_shows_no_control_characters(weights, odd_folder):
    done = halfsecond(
        "analyze", "--plan", "glance", odd_folder / "new\nline \x1b[31m.mp4", odd_folder / "empty.mp4", check=3
    )
    assert "new line [31m.mp4  complete" in done.stdout
    assert "EMPTY_FILE" in done.stdout
    assert "\x1b" not in done.stdout


def test_understanding_can_be_left_out(weights, clips):
    done = halfsecond("analyze", "--json", "--no-llm", "--plan", "glance", clips / "real/store_aisle.mp4")
    result = FusedResult.model_validate_json(done.stdout)
    assert result.status == "complete"
    assert result.stages["text"].status == "skipped"
    assert result.topics == ()


def test_the_language_model_reads_the_mood_of_speech(weights, clips):
    done = halfsecond("analyze", "--json", clips / "composite/talk_en_jfk.mp4", llm="embedded")
    result = FusedResult.model_validate_json(done.stdout)
    assert result.status == "complete"
    assert "smollm2" in result.stages["sentiment"].model.lower()
    assert result.summary


def test_pages_are_written_and_their_place_is_told(weights, clips, tmp_path):
    done = halfsecond("analyze", "--html", tmp_path / "out", "--plan", "glance", clips / "real/store_aisle.mp4")
    index = Path(done.stdout.strip())
    assert index == tmp_path / "out" / "index.html"
    assert "store_aisle.mp4" in index.read_text("utf-8")


@pytest.mark.parametrize(
    "arguments",
    [
        ["analyze"],
        ["analyze", "--json", "--html", "out", "clip.mp4"],
        ["analyze", "--plan", "turbo", "clip.mp4"],
        ["analyze", "--budget-ms", "0", "clip.mp4"],
        ["analyze", "--budget-ms", "soon", "clip.mp4"],
        ["schema", "everything"],
        ["conquer"],
    ],
)
def test_wrong_usage_ends_with_2_and_a_hint(arguments):
    done = halfsecond(*arguments, check=2)
    assert "Usage" in done.stderr
    assert "Traceback" not in done.stderr


def test_missing_weights_say_what_to_do(tmp_path, clips):
    environment = {**os.environ, "HALFSECOND_CACHE_DIR": str(tmp_path)}
    command = [sys.executable, "-m", "pipeline", "analyze", clips / "real/store_aisle.mp4"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=100, check=False, env=environment)
    assert done.returncode == 1
    assert "halfsecond models pull" in done.stderr
    assert "Traceback" not in done.stderr


def test_a_wrong_setting_is_named(clips):
    environment = {**os.environ, "HALFSECOND_CPU_SLOTS": "none"}
    command = [sys.executable, "-m", "pipeline", "analyze", clips / "real/store_aisle.mp4"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=100, check=False, env=environment)
    assert done.returncode == 1
    assert "HALFSECOND_CPU_SLOTS" in done.stderr
    assert "Traceback" not in done.stderr


def test_the_schemas_are_json_schemas_that_real_results_meet(weights, clips):
    import jsonschema

    schemas = json.loads(halfsecond("schema").stdout)
    assert set(schemas) == {"job", "result", "dead-letter", "sla"}
    for schema in schemas.values():
        jsonschema.Draft202012Validator.check_schema(schema)
    done = halfsecond("analyze", "--json", "--plan", "glance", clips / "real/store_aisle.mp4")
    jsonschema.validate(json.loads(done.stdout), schemas["result"])


def test_help_teaches():
    assert "models" in halfsecond("--help").stdout
    assert "Exit status" in halfsecond("analyze", "--help").stdout


def test_a_folder_that_holds_something_else_is_not_written_over(weights, clips, tmp_path):
    (tmp_path / "index.html").write_text("my own page")
    done = halfsecond("analyze", "--html", tmp_path, clips / "real/store_aisle.mp4", check=1)
    assert "index.html" in done.stderr
    assert "Traceback" not in done.stderr
    assert (tmp_path / "index.html").read_text() == "my own page"


def test_interrupting_ends_at_once_and_leaves_no_process(weights, clips):
    command = [sys.executable, "-m", "pipeline", "analyze", "--json", *[clips / "real/store_aisle.mp4"] * 500]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, start_new_session=True) as running:
        assert running.stdout is not None
        first = running.stdout.readline()
        running.send_signal(signal.SIGINT)
        _, errors = running.communicate(timeout=30)
    assert FusedResult.model_validate_json(first).status == "complete"
    assert running.returncode == 130
    assert b"Traceback" not in errors
    with pytest.raises(ProcessLookupError):  # the session's process group is empty
        os.killpg(running.pid, 0)


def test_a_reader_that_has_seen_enough_is_no_error(weights, clips):
    clip = shlex.quote(str(clips / "real/store_aisle.mp4"))
    line = f"{shlex.quote(sys.executable)} -m pipeline analyze --json {' '.join([clip] * 5)} | head -n 1"
    done = subprocess.run(["bash", "-c", line], capture_output=True, text=True, timeout=100, check=True)
    assert FusedResult.model_validate_json(done.stdout).status == "complete"
    assert "Traceback" not in done.stderr
    assert "Exception" not in done.stderr
