"""How much one file may cost."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class MediaLimits:
    """Bounds on one file and on the process that decodes it.

    ``max_pixels`` admits 8K (7680 x 4320 = 33.2 million). ``memory_bytes`` is the worker's whole address space: its
    libraries take about 0.15 GiB and an 8K decoder about 0.5 GiB. ``job_timeout_s`` is how long a worker may be silent
    before it counts as hung; it is far above the slowest honest file and is no substitute for a deadline.
    """

    max_bytes: int = 512 * 1024**2
    max_duration_s: float = 900.0
    max_pixels: int = 36_000_000
    max_streams: int = 64
    max_packets: int = 1_000_000
    memory_bytes: int = 1200 * 1024**2
    job_timeout_s: float = 30.0
