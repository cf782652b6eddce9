"""A language model of a few kilobytes, as a GGUF file."""

from pathlib import Path

import numpy as np
from gguf import GGMLQuantizationType, GGUFWriter, TokenType, quantize

TENSORS = {
    "token_embd.weight": GGMLQuantizationType.Q8_0,
    "blk.0.attn_q.weight": GGMLQuantizationType.Q4_1,
    "blk.0.attn_norm.weight": GGMLQuantizationType.F32,
    "blk.0.ffn_up.weight": GGMLQuantizationType.Q4_1,
}
TOKENS = ["<|endoftext|>", "a", "Ġ", "é"]


def write_tiny_gguf(path: Path, *, seed: int = 0) -> Path:
    """Write the tensors of ``TENSORS``, (10, 64) each but norms of (64,), and a little metadata of every shape."""
    rng = np.random.default_rng(seed)
    writer = GGUFWriter(path, "llama")
    writer.add_name("tiny")
    writer.add_file_type(3)
    writer.add_layer_norm_rms_eps(1e-5)
    writer.add_add_bos_token(value=False)
    writer.add_token_list(TOKENS)
    writer.add_token_types([TokenType.CONTROL, *[TokenType.NORMAL] * 3])
    for name, kind in TENSORS.items():
        values = rng.normal(size=64 if "norm" in name else (10, 64)).astype(np.float32)
        raw = None if kind is GGMLQuantizationType.F32 else kind
        writer.add_tensor(name, quantize(values, kind), raw_dtype=raw)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    return path
