"""Silero VAD (MIT), which says for every 32 ms how likely a voice is heard."""

from pathlib import Path

import numpy as np
import numpy.typing as npt
import onnxruntime as ort

from schemas.deadline import Deadline
from schemas.errors import ConfigurationError, DeadlineExceeded, ErrorCode, StageError
from schemas.media import Samples
from stages.backends.onnx import session_options
from stages.base import Compute
from stages.vad import FRAME

_CONTEXT = 64
"""Samples of the frame before that the network sees again."""

_BLOCK = 1024
"""Frames of one call (33 s): bounds memory, and time past the deadline to about 40 ms."""

_MEMORY_SHAPE = (1, 1, 128)


class SileroVad:
    """The export that takes a whole sequence of frames in one call, with the recurrent memory as input and output."""

    name = "silero-vad 6.2.3"

    def __init__(self, network: Path, *, compute: Compute) -> None:
        """Load ``network``. It always runs on the CPU, where 10 s of sound cost 10 ms: no copy to a device is worth it.

        Raises ``ConfigurationError`` when the file is missing or cannot be read.
        """
        if not network.is_file():
            raise ConfigurationError(ErrorCode.MODEL_MISSING, f"{network} is missing: run 'halfsecond models pull'")
        try:
            self._session = ort.InferenceSession(
                str(network), session_options(compute), providers=["CPUExecutionProvider"]
            )
        except Exception as error:  # the runtime raises many types of its own, all from C++
            raise ConfigurationError(ErrorCode.MODEL_FAILED, f"{network} cannot be loaded: {error}") from error

    def probabilities(self, samples: Samples, *, deadline: Deadline) -> npt.NDArray[np.float32]:
        """Return the probability of a voice in every frame, shape (ceil(n / FRAME),). Thread-safe.

        Raises ``DeadlineExceeded``, and ``StageError`` when the runtime fails.
        """
        frames = _frames(samples)
        hidden = cell = np.zeros(_MEMORY_SHAPE, np.float32)
        found = [np.zeros(0, np.float32)]
        for first in range(0, len(frames), _BLOCK):
            if deadline.expired:
                raise DeadlineExceeded
            feed = {"input": frames[first : first + _BLOCK], "h": hidden, "c": cell}
            try:
                voice, hidden, cell = self._session.run(["speech_probs", "hn", "cn"], feed)
            except Exception as error:
                raise StageError(ErrorCode.MODEL_FAILED, f"{self.name}: {error}") from error
            found.append(voice.reshape(-1))
        return np.concatenate(found)


def _frames(samples: Samples) -> npt.NDArray[np.float32]:
    """Return the network's input: each frame behind the end of the one before, silence at both ends."""
    count = -(-len(samples) // FRAME)
    padded = np.zeros(_CONTEXT + count * FRAME, np.float32)
    padded[_CONTEXT : _CONTEXT + len(samples)] = samples
    windows = np.lib.stride_tricks.sliding_window_view(padded, _CONTEXT + FRAME)[::FRAME]
    return np.ascontiguousarray(windows)
