"""``python -m scripts.avx2 COMMAND``: run it with the runtimes held to AVX2, as on a processor that has no more.

``tests/contract/test_instruction_set.py`` checks that each hold takes effect. Two things stay wider than they would be
there: ONNX Runtime has no such switch, and OpenVINO's own kernels (not oneDNN's) look at the processor itself.
"""

import os
import sys
from pathlib import Path

HELD_TO_AVX2 = {
    "CT2_FORCE_CPU_ISA": "AVX2",
    "MKL_ENABLE_INSTRUCTIONS": "AVX2",
    "ONEDNN_MAX_CPU_ISA": "AVX2_VNNI",
    "DNNL_MAX_CPU_ISA": "AVX2_VNNI",
    "NPY_DISABLE_CPU_FEATURES": "X86_V4 AVX512_ICL AVX512_SPR",
    "OPENBLAS_CORETYPE": "Haswell",
    "OPENCV_CPU_DISABLE": "AVX512-SKX",
}
"""CTranslate2 multiplies with MKL, which its own variable does not reach; OpenVINO and CTranslate2 bring oneDNN; NumPy
brings OpenBLAS. Not plain AVX2 for oneDNN: on processors with VNNI OpenVINO asks it for eight-bit kernels that it then
lacks, and the language model fails. In f32 both limits give the same bits."""


def main() -> None:
    """Become the command, or say why not."""
    if not has_more_than_avx2():
        print("SKIPPED: this processor has nothing wider than AVX2, so the tests as they are have tested it")
        return
    command = sys.argv[1:]
    os.execvpe(command[0], command, os.environ | HELD_TO_AVX2)


def has_more_than_avx2(cpuinfo: Path = Path("/proc/cpuinfo")) -> bool:
    """Return whether there is AVX-512."""
    return cpuinfo.is_file() and "avx512f" in cpuinfo.read_text("utf-8").split()


if __name__ == "__main__":
    main()
