"""Whisper through OpenAI's own package (MIT) on torch: the reference, and the way to CUDA and Ascend devices."""

from collections.abc import Callable, Mapping
from importlib.util import find_spec
from pathlib import Path
from threading import Lock
from typing import Any, Literal

from schemas.errors import ConfigurationError, ErrorCode, StageError
from stages.backends.whisper_tokens import read_pieces
from stages.base import Compute
from stages.mel import Mel
from stages.whisper import FINISHED_READINGS, Decoded, Encoded

Device = Literal["cpu", "cuda", "npu"]


class OpenaiWhisper:
    """One model on one device, float32 on a CPU and float16 elsewhere.

    Calls take turns: while it decodes, openai-whisper keeps its cache in hooks on the shared model.
    """

    def __init__(self, weights: Path, *, compute: Compute, device: Device = "cpu") -> None:
        """Load ``weights``: a checkpoint file (``.pt``) or a CTranslate2 folder, which holds the same numbers.

        Sets torch's number of threads, for the whole process. Raises ``ConfigurationError`` when a package, the device
        or the weights are missing.
        """
        _require_packages(device)
        if not weights.exists():
            raise ConfigurationError(ErrorCode.MODEL_MISSING, f"{weights} is missing: run 'halfsecond models pull'")
        import torch
        import whisper

        from stages.backends import whisper_torch

        if device == "npu":
            import torch_npu  # noqa: F401  # registers the device
        torch.set_num_threads(compute.threads)
        try:
            self._model = whisper_torch.load(weights, device=device)
        except Exception as error:  # torch raises many types
            message = f"{weights} cannot be loaded on {device}: {error}"
            raise ConfigurationError(ErrorCode.MODEL_FAILED, message) from error
        self._whisper, self._torch = whisper, torch
        self._encode, self._decode = whisper_torch.encode, whisper_torch.decode
        self._tokenizer = whisper.tokenizer.get_tokenizer(
            self._model.is_multilingual, num_languages=self._model.num_languages, language="en", task="transcribe"
        )
        self._half = device != "cpu"
        self._turn = Lock()
        self.name = f"{weights.stem if weights.is_file() else weights.name} (openai-whisper {device})"
        self.mel_bins: int = self._model.dims.n_mels

    def encode(self, mel: Mel) -> Encoded:
        """See ``Whisper``."""
        sound = self._torch.from_numpy(mel).to(self._model.device)
        return self._ask(self._encode, self._model, sound.half() if self._half else sound)

    def languages(self, encoded: Encoded) -> Mapping[str, float]:
        """See ``Whisper``."""
        _, probabilities = self._ask(self._whisper.detect_language, self._model, encoded, self._tokenizer)
        found: dict[str, float] = probabilities
        return found

    def decode(
        self,
        encoded: Encoded,
        *,
        language: str,
        prompt: str,
        max_tokens: int,
        beams: int,
        repetition_penalty: float = 1.0,
    ) -> Decoded:
        """See ``Whisper``."""
        options = self._whisper.DecodingOptions(
            language=language,
            prompt=prompt or None,
            sample_len=max_tokens,
            beam_size=beams if beams > 1 else None,
            patience=min(1.0, FINISHED_READINGS / beams) if beams > 1 else None,
            fp16=self._half,
        )
        result = self._ask(self._decode, self._model, encoded, options, repetition_penalty)
        pieces = read_pieces(result.tokens, first_stamp=self._tokenizer.timestamp_begin, to_text=self._tokenizer.decode)
        return Decoded(
            tuple(pieces),
            mean_logprob=result.avg_logprob,
            no_speech=result.no_speech_prob,
            tokens=len(result.tokens),
        )

    def _ask(self, question: Callable[..., Any], *details: Any) -> Any:
        with self._turn:
            try:
                return question(*details)
            except Exception as error:  # torch raises many types
                raise StageError(ErrorCode.MODEL_FAILED, f"{self.name}: {error}") from error


def _require_packages(device: Device) -> None:
    wanted = ("torch", "whisper", "torch_npu") if device == "npu" else ("torch", "whisper")
    missing = [name for name in wanted if find_spec(name) is None]
    if missing:
        raise ConfigurationError(
            ErrorCode.MODEL_MISSING,
            f"the openai backend on {device} lacks {', '.join(missing)}: pip install 'halfsecond[whisper]'"
            + (" torch_npu" if device == "npu" else ""),
        )
