"""The exact oracle as a contestant: plain NumPy, one sequence at a time, every token computed anew for every token."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import numpy as np
from threadpoolctl import threadpool_limits  # type: ignore[import-untyped]

from benchmarks.llm_child import Host
from llm_engine.backends.gguf_tokenizer import GgufTokenizer
from llm_engine.backends.llama_gguf import read_llama
from llm_engine.backends.numpy_executor import NumpyExecutor
from llm_engine.base import Chat, Message
from llm_engine.executor import Chunk
from llm_engine.prompting import load_prompts


@contextmanager
def open_host(*, gguf: str) -> Iterator[Host]:
    """Load ``gguf``."""
    executor = NumpyExecutor(read_llama(Path(gguf)), num_blocks=1)
    tokenizer, prompts = GgufTokenizer(Path(gguf)), load_prompts()

    def answers(*, questions: Sequence[str], new_tokens: int) -> list[list[int]]:
        """Return the greedy answers' texts as tokens, the way the engine's answers are given."""
        chats = [prompts.chat(Chat((Message("user", question),))) for question in questions]
        found = [_greedy(executor, tokenizer.chat(chat), tokenizer.stop_ids, new_tokens) for chat in chats]
        return [tokenizer.encode(tokenizer.decode(tokens)) for tokens in found]

    with threadpool_limits(1):  # more threads wait for each other most of the time: 10 times the CPU time
        yield Host(f"NumPy {np.__version__}, float32, one thread", {"answers": answers})


def _greedy(executor: NumpyExecutor, prompt: list[int], stop_ids: frozenset[int], new_tokens: int) -> list[int]:
    tokens = list(prompt)
    for _ in range(new_tokens):
        logits = executor.execute([Chunk(tokens, 0, len(tokens), (), wants_logits=True)])
        token = int(logits[0].argmax())
        if token in stop_ids:
            break
        tokens.append(token)
    return tokens[len(prompt) :]
