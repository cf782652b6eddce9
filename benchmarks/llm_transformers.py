"""transformers as a contestant: torch in float32, a static batch, no server around it."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from importlib.metadata import version
from pathlib import Path
from typing import Any

from benchmarks.llm_child import Host
from llm_engine.backends.vllm_weights import unpacked


@contextmanager
def open_host(*, gguf: str, cache: str, threads: int) -> Iterator[Host]:
    """Load the weights of ``gguf``, unpacked to safetensors in ``cache``."""
    import torch
    from transformers import AutoModelForCausalLM  # type: ignore[import-not-found,unused-ignore]

    torch.set_num_threads(threads)
    model = AutoModelForCausalLM.from_pretrained(unpacked(Path(gguf), Path(cache)), dtype=torch.float32).eval()

    def generate(*, prompts: Sequence[Sequence[int]], new_tokens: int) -> int:
        """Continue all ``prompts`` (of one length) by exactly ``new_tokens``; return how many came altogether."""
        given = torch.tensor(prompts)
        with torch.inference_mode():
            found: Any = model.generate(
                given,
                attention_mask=torch.ones_like(given),
                do_sample=False,
                min_new_tokens=new_tokens,
                max_new_tokens=new_tokens,
                pad_token_id=0,
            )
        return int(found.shape[0] * (found.shape[1] - given.shape[1]))

    yield Host(f"transformers {version('transformers')}, torch {version('torch')}, float32", {"generate": generate})
