"""A Llama model of a few kilobytes with random weights, as a GGUF file."""

from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
from gguf import GGMLQuantizationType, GGUFWriter, quantize

Tensors = dict[str, npt.NDArray[np.float32]]

LAYERS, HEADS, KV_HEADS, HEAD_DIM = 2, 4, 2, 32
EMBEDDING, FFN, VOCABULARY, CONTEXT = 128, 96, 61, 512

SHAPES = {
    "attn_norm": (EMBEDDING,),
    "attn_q": (HEADS * HEAD_DIM, EMBEDDING),
    "attn_k": (KV_HEADS * HEAD_DIM, EMBEDDING),
    "attn_v": (KV_HEADS * HEAD_DIM, EMBEDDING),
    "attn_output": (EMBEDDING, HEADS * HEAD_DIM),
    "ffn_norm": (EMBEDDING,),
    "ffn_gate": (FFN, EMBEDDING),
    "ffn_up": (FFN, EMBEDDING),
    "ffn_down": (EMBEDDING, FFN),
}

VALUES: dict[str, Any] = {
    "llama.block_count": LAYERS,
    "llama.context_length": CONTEXT,
    "llama.embedding_length": EMBEDDING,
    "llama.feed_forward_length": FFN,
    "llama.attention.head_count": HEADS,
    "llama.attention.head_count_kv": KV_HEADS,
    "llama.rope.dimension_count": HEAD_DIM,
    "llama.rope.freq_base": 500.0,
    "llama.attention.layer_norm_rms_epsilon": 1e-5,
}


def random_tensors(*, seed: int = 0, tied: bool = True) -> Tensors:
    """Tensors by their names in the file, of a size that keeps a sequence's values near 1."""
    rng = np.random.default_rng(seed)
    shapes: dict[str, tuple[int, ...]] = {
        "token_embd.weight": (VOCABULARY, EMBEDDING),
        "output_norm.weight": (EMBEDDING,),
    }
    if not tied:
        shapes["output.weight"] = (VOCABULARY, EMBEDDING)
    shapes |= {f"blk.{i}.{name}.weight": shape for i in range(LAYERS) for name, shape in SHAPES.items()}
    return {
        name: rng.normal(size=shape, scale=1.0 if "norm" in name else shape[-1] ** -0.5).astype(np.float32)
        for name, shape in shapes.items()
    }


def write_llama(
    path: Path,
    tensors: Tensors,
    *,
    values: dict[str, Any] | None = None,
    architecture: str = "llama",
    quantisation: GGMLQuantizationType = GGMLQuantizationType.Q8_0,
) -> Path:
    """Write matrices in ``quantisation`` and vectors in f32, with ``VALUES``, some replaced by ``values``."""
    writer = GGUFWriter(path, architecture)
    for name, value in (VALUES | (values or {})).items():
        if isinstance(value, str):
            writer.add_string(name, value)
        else:
            (writer.add_float32 if isinstance(value, float) else writer.add_uint32)(name, value)
    for name, tensor in tensors.items():
        if tensor.ndim == 1:
            writer.add_tensor(name, tensor)
        else:
            writer.add_tensor(name, quantize(tensor, quantisation), raw_dtype=quantisation)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    return path
