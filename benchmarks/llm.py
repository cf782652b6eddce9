"""``python -m benchmarks.llm``: what the embedded language-model engine promises, measured in one run.

Each contestant is warm in a process of its own, all have the same weights, and they take turns (A B C, B C A, ...), so
that whatever else the machine does hits all of them alike. Compare figures of one run only.
"""

import argparse
import sys
from collections.abc import Callable
from functools import partial
from pathlib import Path

from rich.console import Console

from benchmarks import llm_blocks, llm_greedy, llm_labels, llm_memory, llm_speed, llm_urgent
from benchmarks.llm_contestants import Contestants, Spec
from benchmarks.llm_findings import Findings, Goal, goals_table
from benchmarks.machine import OtherLoad, describe_machine
from benchmarks.media import REPO
from benchmarks.tables import print_tables
from pipeline.settings import load_settings

GGUF = Path("smollm2-135m-instruct", "SmolLM2-135M-Instruct.Q8_0.gguf")
UNPACKED = REPO / "build" / "llm"
"""Where the same weights lie in the layout that transformers and vLLM read (0.5 GB, made on first use)."""

PARTS = ("speed", "greedy", "urgent", "prefix", "abort", "memory", "labels")
ROUNDS, QUICK_ROUNDS = 10, 2
REQUESTS, QUICK_REQUESTS = 10_000, 1_000
LABEL_THREADS = 2

Measure = Callable[..., Findings]


def main() -> None:
    """Measure and print; end with 1 unless every goal was measured and met."""
    options = _options()
    console = Console(width=None if Console().is_terminal else 180, highlight=False)
    others = OtherLoad()
    goals: list[Goal] = []
    with Contestants(_specs(options)) as contestants:
        for name, measure in _parts(options).items():
            with Console(stderr=True).status(name) as status:
                findings = measure(contestants, progress=lambda doing, part=name: status.update(f"{part}: {doing}"))
            print_tables(findings.tables, console, markdown=options.markdown)
            for absent, reason in findings.absent.items():
                print(f"{absent} is not measured: {reason}\n")
            goals += findings.goals
        about = contestants.about
    print_tables([goals_table(goals)], console, markdown=options.markdown)
    print(f"{describe_machine()}; {options.threads} thread(s); other processes used {others.share():.0%} of it.")
    print("\n".join(f"- {name}: {who}" for name, who in about.items()))
    sys.exit(not all(goal.met for goal in goals))


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.llm", description=__doc__)
    parser.add_argument("--only", type=_names, default=PARTS, help=f"parts, comma-separated (of {', '.join(PARTS)})")
    parser.add_argument("--rounds", type=int, help=f"measured rounds (default {ROUNDS}; with --quick {QUICK_ROUNDS})")
    parser.add_argument("--quick", action="store_true", help=f"few rounds, and {QUICK_REQUESTS} requests for 'memory'")
    parser.add_argument("--threads", type=int, default=1, help=f"of every contestant; 'labels' has {LABEL_THREADS}")
    parser.add_argument("--gguf", type=Path, help="weights in Q8_0 (default: those of 'halfsecond models pull')")
    for who in ("llamacpp", "vllm"):
        python = REPO / f".venv-{who}" / "bin" / "python"
        parser.add_argument(f"--{who}-python", type=Path, default=python, help="python of its environment")
    parser.add_argument("--markdown", action="store_true", help="print Markdown tables")
    options = parser.parse_args()
    options.rounds = options.rounds or (QUICK_ROUNDS if options.quick else ROUNDS)
    options.gguf = options.gguf or load_settings().cache_dir / "weights" / GGUF
    return options


def _names(text: str) -> tuple[str, ...]:
    names = tuple(text.split(","))
    if unknown := set(names) - set(PARTS):
        raise argparse.ArgumentTypeError(f"no such part: {', '.join(sorted(unknown))}")
    return names


def _parts(options: argparse.Namespace) -> dict[str, Measure]:
    every: dict[str, Measure] = {
        "speed": partial(llm_speed.measure, rounds=options.rounds),
        "greedy": llm_greedy.measure,
        "urgent": partial(llm_urgent.measure, rounds=options.rounds),
        "prefix": partial(llm_blocks.measure_prefix, rounds=options.rounds),
        "abort": partial(llm_blocks.measure_abort, rounds=options.rounds),
        "memory": partial(llm_memory.measure, requests=QUICK_REQUESTS if options.quick else REQUESTS),
        "labels": partial(llm_labels.measure, rounds=options.rounds),
    }
    return {name: every[name] for name in PARTS if name in options.only}


def _specs(options: argparse.Namespace) -> dict[str, Spec]:
    """Return how everybody is started who may be needed."""
    gguf, threads = {"gguf": str(options.gguf)}, {"threads": options.threads}
    unpacked = {**gguf, "cache": str(UNPACKED)}
    seats = {"seats": llm_urgent.SEATS}

    def ours(module: str, **own: object) -> Spec:
        return Spec(Path(sys.executable), f"benchmarks.{module}", {**gguf, **own})

    def vllm(module: str, **own: object) -> Spec:
        return Spec(
            options.vllm_python, f"benchmarks.{module}", {**unpacked, **threads, **own}, "make .venv-vllm/.ready"
        )

    precisions = dict(zip(llm_speed.OURS, ("int8", "f32"), strict=True))
    tokens, words = (partial(ours, module, **seats) for module in ("llm_tokens", "llm_words"))
    return {
        **{name: tokens(precision=p, **threads) for name, p in precisions.items()},
        **{llm_greedy.IN_WORDS[name]: words(precision=p, **threads) for name, p in precisions.items()},
        llm_memory.SOAKED: words(precision="int8", **threads),
        llm_labels.SCORING: words(precision="int8", threads=LABEL_THREADS),
        llm_greedy.ORACLE: ours("llm_oracle"),
        llm_speed.LLAMA_CPP: Spec(
            options.llamacpp_python, "benchmarks.llm_llamacpp", {**gguf, **threads}, "make .venv-llamacpp/.ready"
        ),
        llm_speed.TRANSFORMERS: vllm("llm_transformers"),
        llm_speed.VLLM: vllm("llm_vllm", **seats),
    }


if __name__ == "__main__":
    main()
