"""The latency benchmark: how many runs are put into one figure."""

from dataclasses import asdict

from benchmarks.samples import Cost, Sample, p95, percentile, sample_from, speed_up


def sample(contestant: str, clip: str, wall_ms: float, cpu_ms: float = 1.0) -> Sample:
    return Sample(contestant, clip, Cost(wall_ms, cpu_ms))


def test_of_twenty_runs_the_p95_is_the_second_slowest() -> None:
    assert p95(range(1, 21)) == 19


def test_of_few_runs_the_p95_is_the_slowest() -> None:
    assert p95([3.0, 1.0, 2.0]) == 3.0


def test_speed_is_compared_clip_by_clip() -> None:
    samples = [
        *(sample("script", "short", ms) for ms in (200, 300, 1000)),
        *(sample("ours", "short", ms) for ms in (90, 100, 110)),
        sample("script", "long", 5000),
        sample("ours", "long", 1000),
    ]
    assert speed_up(samples, of="ours", over="script") == 4.0  # the middle of 3 and 5


def test_cpu_time_is_compared_the_same_way() -> None:
    samples = [sample("script", "a", 10, cpu_ms=80), sample("ours", "a", 10, cpu_ms=20)]
    assert speed_up(samples, of="ours", over="script", cpu=True) == 4.0


def test_of_a_hundred_runs_the_p99_is_the_second_slowest() -> None:
    assert percentile(range(1, 101), 99) == 99


def test_a_sample_comes_back_from_another_process_as_it_was() -> None:
    one = Sample("ours", "a", Cost(10, 20), {"ocr": Cost(5)}, True, "lean", "ask not", {"ocr": 2}, 7.5)
    assert sample_from(asdict(one)) == one
