"""Loading openai-whisper models. Importing this file needs the extra ``whisper``."""

from pathlib import Path
from typing import Any

import torch
import whisper
from torch.nn import functional
from whisper.decoding import DecodingTask, LogitFilter
from whisper.model import ModelDimensions

from stages.backends.whisper_weights import State, read_weights


class EncodedSound(torch.Tensor):  # type: ignore[misc]  # torch is not installed where types are checked
    """An encoder's output. openai-whisper knows it by its shape, but only when the window lasts 30 s."""


class AnyLengthEncoder(torch.nn.Module):  # type: ignore[misc]
    """Whisper's encoder without its assertion that every window lasts 30 s: positions are counted from the start.

    What is encoded already passes through.
    """

    def __init__(self, whole: Any) -> None:
        super().__init__()
        self.whole = whole

    def forward(self, mel: Any) -> Any:
        """Encode ``mel``, shape (batch, bins, frames), to (batch, frames / 2, width)."""
        if isinstance(mel, EncodedSound):
            return mel.as_subclass(torch.Tensor)
        x = functional.gelu(self.whole.conv1(mel))
        x = functional.gelu(self.whole.conv2(x)).permute(0, 2, 1)
        x = (x + self.whole.positional_embedding[: x.shape[1]]).to(x.dtype)
        for block in self.whole.blocks:
            x = block(x)
        return self.whole.ln_post(x)


def encode(model: Any, mel: Any) -> EncodedSound:
    """Return what ``model`` makes of ``mel``, shape (bins, frames), to be given to it in place of ``mel``."""
    with torch.inference_mode():
        encoded: EncodedSound = model.encoder(mel[None])[0].as_subclass(EncodedSound)
        return encoded


class RepetitionPenalty(LogitFilter):  # type: ignore[misc]
    """Makes tokens that were said less likely, as CTranslate2 does. openai-whisper has no such option."""

    def __init__(self, penalty: float, *, begin: int) -> None:
        self.penalty = penalty
        self.begin = begin

    def apply(self, logits: Any, tokens: Any) -> None:
        """Change ``logits``, shape (readings, vocabulary), for what stands behind the prompt in ``tokens``."""
        said = tokens[:, self.begin :]
        scores = logits.gather(1, said)
        logits.scatter_(1, said, torch.where(scores < 0, scores * self.penalty, scores / self.penalty))


def decode(model: Any, encoded: EncodedSound, options: Any, repetition_penalty: float) -> Any:
    """Return what openai-whisper reads in ``encoded``."""
    task = DecodingTask(model, options)
    if repetition_penalty != 1:
        task.logit_filters.insert(0, RepetitionPenalty(repetition_penalty, begin=task.sample_begin))
    return task.run(encoded[None])[0]


def load(weights: Path, *, device: str) -> Any:
    """Return the model in ``weights``: a checkpoint file of openai-whisper or a CTranslate2 folder."""
    model = _from_folder(weights).to(device) if weights.is_dir() else whisper.load_model(str(weights), device=device)
    model.encoder = AnyLengthEncoder(model.encoder)
    return model.eval()


def _from_folder(folder: Path) -> Any:
    weights = read_weights(folder / "model.bin")
    state = weights.state
    model = whisper.Whisper(_dimensions(state, weights.audio_heads, weights.text_heads))
    model.load_state_dict({name: torch.from_numpy(array.astype("float32")) for name, array in state.items()})
    return model


def _dimensions(state: State, audio_heads: int, text_heads: int) -> Any:
    audio_ctx, audio_state = state["encoder.positional_embedding"].shape
    text_ctx, text_state = state["decoder.positional_embedding"].shape
    return ModelDimensions(
        n_mels=state["encoder.conv1.weight"].shape[1],
        n_audio_ctx=audio_ctx,
        n_audio_state=audio_state,
        n_audio_head=audio_heads,
        n_audio_layer=_layers(state, "encoder"),
        n_vocab=len(state["decoder.token_embedding.weight"]),
        n_text_ctx=text_ctx,
        n_text_state=text_state,
        n_text_head=text_heads,
        n_text_layer=_layers(state, "decoder"),
    )


def _layers(state: State, side: str) -> int:
    return len([name for name in state if name.startswith(f"{side}.blocks.") and name.endswith(".mlp_ln.bias")])
