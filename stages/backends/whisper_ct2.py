"""Whisper (MIT, OpenAI) on CTranslate2: the default, and the fastest on a CPU."""

from collections.abc import Mapping
from pathlib import Path

import ctranslate2
import numpy as np
from tokenizers import Tokenizer

from schemas.errors import ConfigurationError, ErrorCode, StageError
from stages.backends.whisper_tokens import read_pieces
from stages.base import Compute
from stages.mel import Mel
from stages.whisper import FINISHED_READINGS, Decoded, Encoded

COMPUTE_TYPE = "int8"
"""Twice as fast as float32 at the same word error rate. Named, because ``auto`` differs between processors."""


class Ctranslate2Whisper:
    """A model folder with ``model.bin``, ``config.json``, ``tokenizer.json`` and its vocabulary."""

    def __init__(self, folder: Path, *, compute: Compute, parallel: int = 1) -> None:
        """Load the model. ``parallel`` calls run side by side on shared weights; more wait for one another.

        Raises ``ConfigurationError`` when a file is missing or cannot be read.
        """
        for name in ("model.bin", "config.json", "tokenizer.json"):
            if not (folder / name).is_file():
                message = f"{folder / name} is missing: run 'halfsecond models pull'"
                raise ConfigurationError(ErrorCode.MODEL_MISSING, message)
        try:
            self._tokenizer = Tokenizer.from_file(str(folder / "tokenizer.json"))
            self._model = ctranslate2.models.Whisper(
                str(folder),
                device="cpu",
                compute_type=COMPUTE_TYPE,
                intra_threads=compute.threads,
                inter_threads=parallel,
            )
        except Exception as error:  # both libraries raise bare types of their own
            raise ConfigurationError(ErrorCode.MODEL_FAILED, f"{folder} cannot be loaded: {error}") from error
        self.name = f"{folder.name} (ctranslate2 {COMPUTE_TYPE})"
        self.mel_bins: int = self._model.n_mels
        self._first_stamp = self._token("<|notimestamps|>") + 1

    def encode(self, mel: Mel) -> Encoded:
        """See ``Whisper``."""
        try:
            return self._model.encode(ctranslate2.StorageView.from_array(np.ascontiguousarray(mel[None])))
        except Exception as error:
            raise StageError(ErrorCode.MODEL_FAILED, f"{self.name}: {error}") from error

    def languages(self, encoded: Encoded) -> Mapping[str, float]:
        """See ``Whisper``."""
        try:
            (ranked,) = self._model.detect_language(encoded)
        except Exception as error:
            raise StageError(ErrorCode.MODEL_FAILED, f"{self.name}: {error}") from error
        return {token.strip("<|>"): probability for token, probability in ranked}

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
        asked = self._prompt(language, prompt)
        try:
            (result,) = self._model.generate(
                encoded,
                [asked],
                beam_size=beams,
                patience=min(1.0, FINISHED_READINGS / beams),
                # CTranslate2 stops at this length less the prompt, but without a text before also at half of it.
                max_length=max(2 * max_tokens, len(asked) + max_tokens),
                repetition_penalty=repetition_penalty,
                return_scores=True,
                return_no_speech_prob=True,
            )
        except Exception as error:
            raise StageError(ErrorCode.MODEL_FAILED, f"{self.name}: {error}") from error
        tokens: list[int] = result.sequences_ids[0]
        return Decoded(
            pieces=tuple(read_pieces(tokens, first_stamp=self._first_stamp, to_text=self._tokenizer.decode)),
            mean_logprob=result.scores[0] * len(tokens) / (len(tokens) + 1),
            no_speech=result.no_speech_prob,
            tokens=len(tokens),
        )

    def _prompt(self, language: str, before: str) -> list[int]:
        tokens = [self._token("<|startoftranscript|>")]
        if self._model.is_multilingual:
            tokens += [self._token(f"<|{language}|>"), self._token("<|transcribe|>")]
        if before:
            words: list[int] = self._tokenizer.encode(f" {before}", add_special_tokens=False).ids
            tokens = [self._token("<|startofprev|>"), *words, *tokens]
        return tokens

    def _token(self, text: str) -> int:
        token: int | None = self._tokenizer.token_to_id(text)
        if token is None:
            raise StageError(ErrorCode.MODEL_FAILED, f"the model has no token {text}")
        return token
