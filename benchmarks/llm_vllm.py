"""vLLM on the CPU as a contestant: its engine in process, float32, no prefix cache, priority scheduling."""

import itertools
import os
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from importlib.metadata import packages_distributions, version
from pathlib import Path
from typing import Any

from benchmarks.llm_child import Host
from llm_engine.backends.vllm_args import VllmSettings, engine_arguments, environment
from llm_engine.backends.vllm_platform import Platform
from llm_engine.backends.vllm_weights import unpacked

URGENT, LOW = 0, 2
"""vLLM serves smaller numbers first."""


@contextmanager
def open_host(*, gguf: str, cache: str, threads: int, seats: int) -> Iterator[Host]:
    """Load the weights of ``gguf``, with what our own backend gives vLLM on a CPU but for the prefix cache."""
    settings = VllmSettings(unpacked(Path(gguf), Path(cache)), Platform.CPU, max_num_seqs=seats, threads=threads)
    os.environ.update(environment(settings), VLLM_LOGGING_LEVEL="ERROR")
    from vllm import LLM

    only_here = {"enable_prefix_caching": False, "skip_tokenizer_init": True, "disable_log_stats": True}
    asked = _Asked(LLM(**(engine_arguments(settings) | only_here)).llm_engine)
    name = packages_distributions()["vllm"][0]
    about = f"{name} {version(name)}, torch {version('torch')}, float32"
    yield Host(about, {"generate": asked.generate, "urgent": asked.urgent})


class _Asked:
    """What the engine is asked to do. Its loop is turned here, step by step."""

    def __init__(self, engine: Any) -> None:
        self._engine = engine
        self._numbers = itertools.count()

    def generate(self, *, prompts: Sequence[Sequence[int]], new_tokens: int) -> int:
        """Continue all ``prompts`` at once by exactly ``new_tokens``; return how many came altogether."""
        for prompt in prompts:
            self._add(prompt, new_tokens, priority=LOW)
        total = 0
        while self._engine.has_unfinished_requests():
            total += sum(self._step().values())
        return total

    def urgent(
        self,
        *,
        low: Sequence[Sequence[int]],
        low_new_tokens: int,
        prompt: Sequence[int],
        after_tokens: int,
        last: bool = False,
    ) -> float:
        """Return the ms until the first token of ``prompt``, asked for once ``low`` have got ``after_tokens``.

        ``last``: it is as low as they are, and has come after them.
        """
        others = [self._add(other, low_new_tokens, priority=LOW) for other in low]
        given = 0
        while others and given < after_tokens:
            given += sum(self._step().values())
        began_s = time.perf_counter()
        urgent = self._add(prompt, 1, priority=LOW if last else URGENT)
        while urgent not in self._step():
            pass
        ttft_ms = (time.perf_counter() - began_s) * 1e3
        self._engine.abort_request(others)
        return ttft_ms

    def _add(self, prompt: Sequence[int], new_tokens: int, *, priority: int) -> str:
        from vllm import SamplingParams
        from vllm.sampling_params import RequestOutputKind

        params = SamplingParams(
            temperature=0.0,
            max_tokens=new_tokens,
            ignore_eos=True,
            detokenize=False,
            output_kind=RequestOutputKind.DELTA,
        )
        request_id = str(next(self._numbers))
        self._engine.add_request(request_id, {"prompt_token_ids": list(prompt)}, params, priority=priority)
        return request_id

    def _step(self) -> dict[str, int]:
        """Turn the engine's loop once; return how many tokens each request has got."""
        return {output.request_id: len(output.outputs[0].token_ids) for output in self._engine.step()}
