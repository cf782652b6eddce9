"""``python -m benchmarks.service``: what the service promises, measured on a real Kafka in one run.

Jobs come open-loop, at seeded random moments that do not wait for answers. Latency is the broker's own: the timestamp
of the answer's record minus that of the job's.
"""

import argparse
import sys
from collections.abc import Callable
from functools import partial

from rich.console import Console

from benchmarks import service_capacity, service_kills, service_lanes, service_memory, service_orchestration
from benchmarks.llm_findings import Findings, Goal, goals_table, unmeasured
from benchmarks.machine import OtherLoad, describe_machine
from benchmarks.service_capacity import Seconds
from benchmarks.service_clips import real_clips
from benchmarks.service_stand import NotMeasured, Stand, open_stand
from benchmarks.tables import print_tables

PARTS = ("orchestration", "memory", "kills", "capacity", "lanes")

Measure = Callable[..., Findings]


def main() -> None:
    """Measure and print; end with 1 unless every goal was measured and met."""
    options = _options()
    console = Console(width=None if Console().is_terminal else 180, highlight=False)
    others = OtherLoad()
    goals: list[Goal] = []
    try:
        with open_stand() as stand:
            for name, measure in _parts(options).items():
                findings = _measured(name, measure, stand)
                print_tables(findings.tables, console, markdown=options.markdown)
                for absent, reason in findings.absent.items():
                    print(f"{absent}: not measured: {reason}\n")
                goals += findings.goals
    except NotMeasured as reason:
        sys.exit(f"nothing is measured: {reason}")
    print_tables([goals_table(goals)], console, markdown=options.markdown)
    print(f"{describe_machine()}; language model: {options.llm}; other processes used {others.share():.0%} of it.")
    sys.exit(not all(goal.met for goal in goals))


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.service", description=__doc__)
    parser.add_argument("--only", type=_names, default=PARTS, help=f"parts, comma-separated (of {', '.join(PARTS)})")
    parser.add_argument("--quick", action="store_true", help="short loads, few kills: figures to look at, not to quote")
    parser.add_argument("--long", action="store_true", help="'memory' on real clips, too: an hour more")
    parser.add_argument("--llm", choices=("embedded", "off"), default="embedded", help="of 'capacity' and 'lanes'")
    parser.add_argument("--markdown", action="store_true", help="print Markdown tables")
    return parser.parse_args()


def _names(text: str) -> tuple[str, ...]:
    names = tuple(text.split(","))
    if unknown := set(names) - set(PARTS):
        raise argparse.ArgumentTypeError(f"no such part: {', '.join(sorted(unknown))}")
    return names


def _parts(options: argparse.Namespace) -> dict[str, Measure]:
    """Return the wanted parts, each as long as it is to be."""
    quick: bool = options.quick
    jobs = 2_000 if quick else 10_000
    every: dict[str, Measure] = {
        "orchestration": partial(
            service_orchestration.measure, jobs=15_000 if quick else 30_000, rounds=1 if quick else 3
        ),
        "memory": partial(service_memory.measure, soaked=[service_memory.idle(jobs)], jobs=jobs),
        "kills": partial(service_kills.measure, kills=2 if quick else 20),
    }
    if {"capacity", "lanes"} & set(options.only) or options.long:
        clips = real_clips(llm=options.llm)
        seconds = Seconds(closed=15, easy=30, hard=20) if quick else Seconds(closed=45, easy=120, hard=60)
        every["capacity"] = partial(service_capacity.measure, clips=clips, seconds=seconds)
        every["lanes"] = partial(service_lanes.measure, clips=clips, seconds=20 if quick else 120)
        if options.long:
            soaked = [service_memory.idle(jobs), service_memory.real(clips)]
            every["memory"] = partial(service_memory.measure, soaked=soaked, jobs=jobs)
    return {name: every[name] for name in PARTS if name in options.only}


def _measured(name: str, measure: Measure, stand: Stand) -> Findings:
    with Console(stderr=True).status(name) as status:
        try:
            return measure(stand, progress=lambda doing: status.update(f"{name}: {doing}"))
        except NotMeasured as reason:
            return Findings([], [unmeasured(name, "all of its goals", str(reason))])


if __name__ == "__main__":
    main()
