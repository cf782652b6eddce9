"""llama.cpp as a contestant: its server in process (xllamacpp), with continuous batching, at its own defaults."""

from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from importlib.metadata import version
from typing import Any

from benchmarks.llm_child import Host

SLOTS = 8
CONTEXT = 8192
"""Tokens of all slots together: 8 times 128 + 32, and room."""


@contextmanager
def open_host(*, gguf: str, threads: int) -> Iterator[Host]:
    """Load ``gguf`` as it lies there: weights in Q8_0, activations quantised to eight bits, keys and values in f16."""
    import xllamacpp  # type: ignore[import-not-found,unused-ignore]

    params = xllamacpp.CommonParams()
    params.model.path = gguf
    params.n_ctx, params.n_parallel, params.n_gpu_layers = CONTEXT, SLOTS, 0
    params.cpuparams.n_threads = params.cpuparams_batch.n_threads = threads
    server = xllamacpp.Server(params)
    with ThreadPoolExecutor(SLOTS) as pool:
        yield Host(f"xllamacpp {version('xllamacpp')}, {_units(xllamacpp)}", {"generate": _Generate(server, pool)})


def _units(xllamacpp: Any) -> str:
    """Return the widest vector unit of the processor that the library was built to use."""
    known = xllamacpp.get_system_info()
    return next((unit for unit in ("AVX512", "AVX2", "AVX", "NEON") if f"{unit} = 1" in known), "no vector unit")


class _Generate:
    def __init__(self, server: Any, pool: ThreadPoolExecutor) -> None:
        self._server = server
        self._pool = pool

    def __call__(self, *, prompts: Sequence[Sequence[int]], new_tokens: int) -> int:
        """Continue all ``prompts`` at once by exactly ``new_tokens``; return how many came altogether."""
        return sum(self._pool.map(lambda prompt: self._one(prompt, new_tokens), prompts))

    def _one(self, prompt: Sequence[int], new_tokens: int) -> int:
        request = {"prompt": prompt, "n_predict": new_tokens, "temperature": 0, "ignore_eos": True}
        answer = self._server.handle_completions(request | {"cache_prompt": False})
        return int(answer["usage"]["completion_tokens"])
