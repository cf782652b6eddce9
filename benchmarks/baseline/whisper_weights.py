"""Builds an openai-whisper model from the CTranslate2 files of the same weights.

The original checkpoints lie on one host that not every network reaches; the converted ones come with
``halfsecond models pull``. Both hold the same float16 numbers: CTranslate2 only stacks query, key and value matrices.
"""

import struct
from pathlib import Path
from typing import BinaryIO

import numpy as np
import torch
from whisper.model import ModelDimensions, Whisper

FLOAT16 = 4
"""CTranslate2's code of the one type these files hold weights in."""

HEAD_SIZE = 64
"""The width of one attention head in every Whisper."""

Attentions = dict[str, tuple[str, tuple[tuple[str, ...], ...]]]
"""CTranslate2's name of an attention, Whisper's, and what each of its stacked matrices holds."""

ATTENTION: Attentions = {"self_attention": ("attn", (("query", "key", "value"), ("out",)))}
CROSS_ATTENTION: Attentions = {"attention": ("cross_attn", (("query",), ("key", "value"), ("out",)))}


def load_whisper(folder: Path) -> Whisper:
    """Return the model whose CTranslate2 files lie in ``folder``, in float32 on the CPU, ready to transcribe."""
    stored = _read_tensors(folder / "model.bin")
    model = Whisper(_dimensions(stored))
    model.load_state_dict(_state(stored))
    return model.eval()


def _read_tensors(path: Path) -> dict[str, np.ndarray]:
    """Read a CTranslate2 ``model.bin`` (format 6): each tensor as name, rank, shape, type, byte count, bytes."""
    tensors = {}
    with path.open("rb") as file:
        (version,) = _unpack(file, "<I")
        if version != 6:
            raise ValueError(f"{path}: format {version}, not 6")
        _text(file), _unpack(file, "<I")
        (count,) = _unpack(file, "<I")
        for _ in range(count):
            name = _text(file)
            (rank,) = _unpack(file, "<B")
            shape = _unpack(file, f"<{rank}I")
            kind, size = _unpack(file, "<BI")
            data = file.read(size)
            if kind == FLOAT16:
                tensors[name] = np.frombuffer(data, np.float16).reshape(shape)
    return tensors


def _unpack(file: BinaryIO, layout: str) -> tuple[int, ...]:
    return struct.unpack(layout, file.read(struct.calcsize(layout)))


def _text(file: BinaryIO) -> str:
    (size,) = _unpack(file, "<H")
    return file.read(size).rstrip(b"\0").decode()


def _dimensions(stored: dict[str, np.ndarray]) -> ModelDimensions:
    audio_ctx, state = stored["encoder/position_encodings/encodings"].shape
    text_ctx, _ = stored["decoder/position_encodings/encodings"].shape
    vocabulary, _ = stored["decoder/embeddings/weight"].shape
    layers = _layers(stored)
    heads = state // HEAD_SIZE
    return ModelDimensions(
        n_mels=stored["encoder/conv1/weight"].shape[1],
        n_audio_ctx=audio_ctx,
        n_audio_state=state,
        n_audio_head=heads,
        n_audio_layer=layers,
        n_vocab=vocabulary,
        n_text_ctx=text_ctx,
        n_text_state=state,
        n_text_head=heads,
        n_text_layer=layers,
    )


def _layers(stored: dict[str, np.ndarray]) -> int:
    return sum(name.startswith("encoder/") and name.endswith("ffn/layer_norm/beta") for name in stored)


def _state(stored: dict[str, np.ndarray]) -> dict[str, torch.Tensor]:
    state = {
        "encoder.positional_embedding": stored["encoder/position_encodings/encodings"],
        "decoder.positional_embedding": stored["decoder/position_encodings/encodings"],
        "decoder.token_embedding.weight": stored["decoder/embeddings/weight"],
        **_norm("encoder.ln_post", "encoder/layer_norm", stored),
        **_norm("decoder.ln", "decoder/layer_norm", stored),
    }
    for conv in ("conv1", "conv2"):
        for part in ("weight", "bias"):
            state[f"encoder.{conv}.{part}"] = stored[f"encoder/{conv}/{part}"]
    for layer in range(_layers(stored)):
        state |= _block(f"encoder.blocks.{layer}", f"encoder/layer_{layer}", stored, attentions=ATTENTION)
        both = ATTENTION | CROSS_ATTENTION
        state |= _block(f"decoder.blocks.{layer}", f"decoder/layer_{layer}", stored, attentions=both)
    return {name: torch.from_numpy(array.astype(np.float32)) for name, array in state.items()}


def _block(to: str, source: str, stored: dict[str, np.ndarray], *, attentions: Attentions) -> dict[str, np.ndarray]:
    block = _norm(f"{to}.mlp_ln", f"{source}/ffn/layer_norm", stored)
    for number, place in enumerate((0, 2)):
        for part in ("weight", "bias"):
            block[f"{to}.mlp.{place}.{part}"] = stored[f"{source}/ffn/linear_{number}/{part}"]
    for theirs, (ours, stacks) in attentions.items():
        block |= _norm(f"{to}.{ours}_ln", f"{source}/{theirs}/layer_norm", stored)
        for number, names in enumerate(stacks):
            for part in ("weight", "bias"):
                stacked = np.split(stored[f"{source}/{theirs}/linear_{number}/{part}"], len(names))
                block |= {f"{to}.{ours}.{name}.{part}": array for name, array in zip(names, stacked, strict=True)}
        del block[f"{to}.{ours}.key.bias"]  # Whisper's keys have none; CTranslate2 stores zeros
    return block


def _norm(to: str, source: str, stored: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
    return {f"{to}.weight": stored[f"{source}/gamma"], f"{to}.bias": stored[f"{source}/beta"]}
