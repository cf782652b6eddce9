"""Real clips for the real worker: which, and how it is set to be measured."""

import json
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from benchmarks.flow_clips import flow_clips
from benchmarks.media import media_root
from benchmarks.service_stand import NotMeasured

WORKER = (sys.executable, "-m", "pipeline", "worker")
FIFO = (sys.executable, "-m", "benchmarks.service_fifo")
UNDER_WAY = 2
"""Jobs of a closed loop: one a core."""


@dataclass(frozen=True, slots=True)
class RealClips:
    """``settings``: of whoever is to analyse them."""

    paths: Sequence[Path]
    settings: dict[str, str]


def real_clips(*, llm: str) -> RealClips:
    """Return the clips of the latency benchmark. Raises ``NotMeasured`` when they are not there."""
    paths = [clip.path.resolve() for clip in flow_clips(media_root())]
    if not paths:
        raise NotMeasured("no clips here: see benchmarks/flow_clips.toml")
    settings = {
        "HALFSECOND_FETCH_ROOTS": json.dumps(sorted({str(path.parent) for path in paths})),
        "HALFSECOND_LLM": llm,
        "HALFSECOND_LLM_CACHE_ENTRIES": "0",  # the same clips come again and again
    }
    return RealClips(paths, settings)
