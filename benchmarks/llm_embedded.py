"""The embedded engine, put together for a benchmark as the product does it."""

import asyncio
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

import openvino

from llm_engine.backends.gguf_tokenizer import GgufTokenizer
from llm_engine.backends.guidance import GuidanceConstraints
from llm_engine.backends.llama_gguf import read_llama
from llm_engine.backends.openvino_executor import OpenvinoExecutor, Precision
from llm_engine.embedded import EmbeddedEngine
from llm_engine.prompting import load_prompts
from llm_engine.scheduler import SchedulerLimits
from llm_engine.tokenizer import Tokenizer

NUM_BLOCKS = 256
"""8,192 tokens: 16 seats of 256 tokens, and as many for prefixes."""


class Bench(NamedTuple):
    """An engine, its real tokenizer, and the event loop that both belong to."""

    engine: EmbeddedEngine
    tokenizer: GgufTokenizer
    runner: asyncio.Runner
    about: str


def _as_it_is(tokenizer: GgufTokenizer) -> Tokenizer:
    return tokenizer


@contextmanager
def open_bench(
    *,
    gguf: str,
    precision: Precision,
    threads: int,
    seats: int,
    seen_as: Callable[[GgufTokenizer], Tokenizer] = _as_it_is,
) -> Iterator[Bench]:
    """Load ``gguf``. ``seen_as``: what the engine is given for a tokenizer."""
    executor = OpenvinoExecutor(read_llama(Path(gguf)), threads=threads, num_blocks=NUM_BLOCKS, precision=precision)
    tokenizer = GgufTokenizer(Path(gguf))
    engine = EmbeddedEngine(
        executor,
        seen_as(tokenizer),
        prompts=load_prompts(),
        constraints=GuidanceConstraints(
            tokenizer.to_json(), stop_ids=tokenizer.stop_ids, vocab_size=tokenizer.vocab_size
        ),
        limits=SchedulerLimits(max_seqs=seats),
    )
    activations = {"int8": "eight-bit activations", "f32": "float32 activations"}[precision]
    about = f"OpenVINO {openvino.__version__.partition('-')[0]}, {activations}, float32 keys and values"
    with asyncio.Runner() as runner:
        try:
            yield Bench(engine, tokenizer, runner, about)
        finally:
            runner.run(engine.close())
