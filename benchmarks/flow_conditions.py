"""Under which conditions the flow is measured: the machine as it is, and what slower machines are like."""

import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field

AVX2_ONLY = {
    "CT2_FORCE_CPU_ISA": "AVX2",
    "MKL_ENABLE_INSTRUCTIONS": "AVX2",
    "DNNL_MAX_CPU_ISA": "AVX2_VNNI",
    "ONEDNN_MAX_CPU_ISA": "AVX2_VNNI",
}
"""Holds CTranslate2 to AVX2, whose products of matrices are MKL's on Intel's processors: without the second it is as
fast as ever. OpenVINO lays out weights for the processor there is and then finds no kernel in a oneDNN held to AVX2, so
its eight-bit products keep AVX2's own VNNI. ONNX Runtime chooses by the processor alone."""

NAMES = ("native", "avx2", "one-core")


@dataclass(frozen=True, slots=True)
class Condition:
    """``isa``: the widest vector units that speech may use, "" if not even AVX2; ``environment``: what sees to it."""

    name: str
    title: str
    isa: str
    cores: frozenset[int]
    environment: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class NotHere:
    """A condition that this machine cannot be put in, and why."""

    name: str
    reason: str


def conditions(
    names: Sequence[str], *, units: Sequence[str], cores: frozenset[int], environment: Mapping[str, str]
) -> list[Condition | NotHere]:
    """Return what each of ``names`` means on a machine with these vector units and cores, each once."""
    isa = _isa(units, environment)
    found: dict[str, Condition | NotHere] = {
        "native": Condition("native", "The machine as it is", isa, cores),
        "avx2": Condition("avx2", "Held to AVX2", "avx2", cores, AVX2_ONLY),
        "one-core": Condition("one-core", "Pinned to one core", isa, frozenset({max(cores)})),
    }
    if isa != "avx512":
        found["avx2"] = NotHere("avx2", "nothing wider than AVX2 here")
    if len(cores) == 1:
        found["one-core"] = NotHere("one-core", "there is only one core anyway")
    return [found[name] for name in NAMES if name in names]


def _isa(units: Sequence[str], environment: Mapping[str, str]) -> str:
    held = environment.get("MKL_ENABLE_INSTRUCTIONS") == "AVX2"
    if "avx512f" in units and not held:
        return "avx512"
    return "avx2" if "avx2" in units else ""


@contextmanager
def pinned(cores: frozenset[int]) -> Iterator[None]:
    """Let processes that are started in the block run on ``cores`` alone, from their first instruction on."""
    before = os.sched_getaffinity(0)
    os.sched_setaffinity(0, cores)
    try:
        yield
    finally:
        os.sched_setaffinity(0, before)
