"""Each library obeys the variables that hold it to AVX2: a hold that takes no effect would test nothing, silently."""

import os
import re
import subprocess
import sys
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from scripts.avx2 import HELD_TO_AVX2, has_more_than_avx2

WIDER = re.compile(r"AVX-?512|AVX10|AMX|X86_V4|SkylakeX|Cooperlake|SapphireRapids", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class Witness:
    """A program that prints what a library uses; ``lines``: which of them say so."""

    program: str
    lines: str = ""
    talkative: dict[str, str] = field(default_factory=dict)


CPU_AVX512_SKX = 256
"""OpenCV's number of it, which its Python package does not name."""

ENCODE = """
import sys, numpy, ctranslate2
model = ctranslate2.models.Whisper(sys.argv[1], device="cpu", compute_type="int8")
model.encode(ctranslate2.StorageView.from_array(numpy.zeros((1, 80, 400), numpy.float32)))
"""

CONVOLVE = """
import numpy, openvino
from openvino import opset13 as op
image = op.parameter([1, 8, 16, 16], numpy.float32)
kernel = op.constant(numpy.ones((8, 8, 3, 3), numpy.float32))
edges = op.convolution(image, kernel, [1, 1], [0, 0], [0, 0], [1, 1])
as_ours = {"INFERENCE_PRECISION_HINT": "f32"}
openvino.Core().compile_model(openvino.Model([edges], [image]), "CPU", as_ours)
"""

WITNESSES = {
    "CTranslate2": Witness(ENCODE, r"Selected ISA", {"CT2_VERBOSE": "1"}),
    "MKL and oneDNN in CTranslate2": Witness(
        ENCODE, r"^MKL_VERBOSE .*MKL|onednn_verbose.*isa:", {"MKL_VERBOSE": "1", "ONEDNN_VERBOSE": "1"}
    ),
    "oneDNN in OpenVINO": Witness(CONVOLVE, r"onednn_verbose.*isa:", {"ONEDNN_VERBOSE": "1"}),
    "NumPy": Witness("import numpy; print(numpy.show_config(mode='dicts')['SIMD Extensions']['found'])"),
    "OpenBLAS in NumPy": Witness(
        "import numpy, threadpoolctl; print([pool.get('architecture') for pool in threadpoolctl.threadpool_info()])"
    ),
    "OpenCV": Witness(f"import cv2; print('AVX512' if cv2.checkHardwareSupport({CPU_AVX512_SKX}) else 'narrower')"),
}

NARROW_ANYWAY = {"CTranslate2"}
"""Its own kernels leave AVX-512 alone unless told otherwise."""


@pytest.mark.models
@pytest.mark.skipif(not has_more_than_avx2(), reason="nothing wider than AVX2 here that could be held back")
@pytest.mark.parametrize("name", WITNESSES)
def test_a_library_held_to_avx2_uses_nothing_wider(name: str, weights: Path) -> None:
    free, held = (said(WITNESSES[name], weights, environment=held) for held in ({}, HELD_TO_AVX2))
    assert held
    assert not WIDER.search(held)
    assert name in NARROW_ANYWAY or WIDER.search(free), "what is not seen without the hold proves nothing with it"


def said(witness: Witness, weights: Path, *, environment: dict[str, str]) -> str:
    """Return what the library says of itself in a process of its own."""
    command = [sys.executable, "-c", witness.program, str(weights / "whisper-tiny.en")]
    free = {name: value for name, value in os.environ.items() if name not in HELD_TO_AVX2}
    run = subprocess.run(
        command, env=free | witness.talkative | environment, capture_output=True, text=True, check=True, timeout=60
    )
    return "\n".join(line for line in (run.stdout + run.stderr).splitlines() if re.search(witness.lines, line))


@pytest.mark.parametrize(("flags", "more"), [("fma avx2", False), ("avx2 avx512f avx512bw", True)])
def test_more_than_avx2_is_seen_in_the_processors_flags(tmp_path: Path, flags: str, more: bool) -> None:
    cpuinfo = tmp_path / "cpuinfo"
    cpuinfo.write_text(f"processor\t: 0\nflags\t\t: fpu {flags} sha_ni\n", "utf-8")
    assert has_more_than_avx2(cpuinfo) is more
    assert not has_more_than_avx2(tmp_path / "another system")
