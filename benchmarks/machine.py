"""Which machine this is, how busy others keep it, and what a tree of processes has cost."""

import os
import resource
import time
from typing import NamedTuple

from benchmarks.memory import PROC, descendants

FEATURES = ("avx2", "avx512f", "avx512_vnni", "avx512_bf16", "amx_int8")
TICKS_A_SECOND = os.sysconf("SC_CLK_TCK")


def describe_machine() -> str:
    """Return the processor, its vector units, and how many cores this process may use."""
    facts = _processor()
    model = (
        f"{facts.get('model name', 'unknown processor')} (family {facts.get('cpu family')}, model {facts.get('model')})"
    )
    cores = len(os.sched_getaffinity(0))
    return f"{model}; {', '.join(vector_units()) or 'no AVX2'}; {cores} core{'s' if cores > 1 else ''}"


def vector_units() -> tuple[str, ...]:
    """Return which of ``FEATURES`` the processor has."""
    flags = _processor().get("flags", "").split()
    return tuple(feature for feature in FEATURES if feature in flags)


def _processor() -> dict[str, str]:
    facts: dict[str, str] = {}
    for line in (PROC / "cpuinfo").read_text("utf-8").splitlines():
        key, _, value = line.partition(":")
        facts.setdefault(key.strip(), value.strip())
    return facts


class CpuMark(NamedTuple):
    """Where a meter's clocks stood."""

    children_s: float
    own_s: float


class CpuMeter:
    """CPU seconds of this process, of its living descendants but ``without``, and of those that have ended."""

    def __init__(self, *, without: frozenset[int] = frozenset()) -> None:
        self._without = without

    def mark(self) -> CpuMark:
        """Return where the clocks stand. What reading them costs is not counted, here or in ``since_s``."""
        children_s = self._children_s()
        return CpuMark(children_s, time.process_time())

    def since_s(self, mark: CpuMark) -> float:
        """Return what was used since ``mark``. Living descendants count in steps of a clock tick (10 ms)."""
        own_s = time.process_time() - mark.own_s
        return own_s + self._children_s() - mark.children_s

    def _children_s(self) -> float:
        ended = resource.getrusage(resource.RUSAGE_CHILDREN)
        living = sum(cpu_ticks(pid) for pid in descendants(os.getpid()) if pid not in self._without)
        return ended.ru_utime + ended.ru_stime + living / TICKS_A_SECOND


def cpu_ticks(pid: int) -> int:
    """Return the user and system time of one process, all its threads, in clock ticks."""
    try:
        fields = (PROC / str(pid) / "stat").read_text("utf-8", "replace").rpartition(")")[2].split()
    except OSError:
        return 0
    return int(fields[11]) + int(fields[12])


class OtherLoad:
    """How much of the machine processes that are not ours take, from its making on."""

    def __init__(self) -> None:
        self._meter = CpuMeter()
        self._mark = self._meter.mark()
        self._began_s = time.perf_counter()
        self._busy_s = busy_s()

    def share(self) -> float:
        """Return the part of all cores' time that others used, 0 to 1. Figures are only worth much near 0."""
        wall_s = time.perf_counter() - self._began_s
        others_s = busy_s() - self._busy_s - self._meter.since_s(self._mark)
        return max(0.0, others_s) / (wall_s * (os.cpu_count() or 1))


def busy_s() -> float:
    """Return the CPU seconds that all processes of the machine have used since it started."""
    first = (PROC / "stat").read_text("utf-8").splitlines()[0]
    user, nice, system, _idle, _iowait, irq, softirq, *_ = (int(field) for field in first.split()[1:])
    return (user + nice + system + irq + softirq) / TICKS_A_SECOND
