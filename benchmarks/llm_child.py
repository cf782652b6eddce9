"""``python -m benchmarks.llm_child MODULE OPTIONS``: one contestant, warm in a process and an environment of its own.

One JSON object a line. In: ``{"do": "generate", ...arguments}``. Out: ``{"cost": {...}, "found": ...}``, or
``{"error": "..."}``. The first line out is ``{"about": "library 1.2, fp32"}`` once everything is loaded. Needs nothing
beyond the standard library and what the contestant itself imports.
"""

import json
import os
import sys
import time
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager
from dataclasses import asdict, dataclass
from importlib import import_module
from typing import Any

from benchmarks.machine import CpuMeter
from benchmarks.samples import Cost

Operation = Callable[..., Any]


@dataclass(frozen=True, slots=True)
class Host:
    """What a contestant says of itself, and what it can be asked to do. Answers must be JSON."""

    about: str
    operations: Mapping[str, Operation]


OpenHost = Callable[..., AbstractContextManager[Host]]
"""Called ``open_host`` in each contestant's module."""


def main() -> None:
    """Load the contestant, then do as asked until standard input ends."""
    answers = _claim_stdout()
    open_host: OpenHost = import_module(sys.argv[1]).open_host
    with open_host(**json.loads(sys.argv[2])) as host:
        _say(answers, {"about": host.about})
        for line in sys.stdin:
            _say(answers, _answer(host, json.loads(line)))


def _answer(host: Host, call: dict[str, Any]) -> dict[str, Any]:
    operation = host.operations[call.pop("do")]
    meter = CpuMeter()
    mark, began_s = meter.mark(), time.perf_counter()
    try:
        found = operation(**call)
    except Exception as error:  # noqa: BLE001 - the parent names it, and goes on with the others
        return {"error": f"{type(error).__name__}: {error}"}
    wall_ms = (time.perf_counter() - began_s) * 1e3
    return {"cost": asdict(Cost(wall_ms, meter.since_s(mark) * 1e3)), "found": found}


def _claim_stdout() -> Any:
    """Keep standard output for answers; whatever the libraries print goes to standard error."""
    answers = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)
    return answers


def _say(answers: Any, message: dict[str, Any]) -> None:
    answers.write(json.dumps(message, ensure_ascii=False) + "\n")
    answers.flush()


if __name__ == "__main__":
    main()
