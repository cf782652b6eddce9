"""onnxruntime behind one small door: every ONNX network of the project is opened here, in the same way."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import onnxruntime as ort

from schemas.errors import ConfigurationError, ErrorCode, StageError
from stages.base import Compute

Tensor = npt.NDArray[np.float32]


class OnnxModel:
    """A loaded network with one input. Safe to call from several threads; the GIL is free while it computes."""

    def __init__(self, session: ort.InferenceSession, *, name: str) -> None:
        self.name = name
        self._session = session
        self._input = session.get_inputs()[0]

    @property
    def input_shape(self) -> tuple[int | str | None, ...]:
        """Axes of the input; a name or None where any size will do."""
        return tuple(self._input.shape)

    @property
    def metadata(self) -> Mapping[str, str]:
        """The custom strings stored in the file."""
        strings: Mapping[str, str] = self._session.get_modelmeta().custom_metadata_map
        return strings

    def __call__(self, x: Tensor) -> list[Tensor]:
        """Return all outputs, in the file's order. Raises ``StageError`` when the runtime fails."""
        try:
            outputs: list[Tensor] = self._session.run(None, {self._input.name: x})
        except Exception as error:  # the runtime raises many types of its own, all from C++
            raise StageError(ErrorCode.MODEL_FAILED, f"{self.name}: {error}") from error
        return outputs


def open_session(path: Path, *, compute: Compute) -> OnnxModel:
    """Load the network in ``path``.

    Raises ``ConfigurationError`` when the file is missing or is no network, or when a provider is not installed:
    falling back in silence would run a GPU's work on the CPU and miss every deadline.
    """
    _require_providers(compute.providers)
    if not path.is_file():
        raise ConfigurationError(ErrorCode.MODEL_MISSING, f"{path} is missing: run 'halfsecond models pull'")
    try:
        session = ort.InferenceSession(str(path), session_options(compute), providers=_providers(compute))
    except Exception as error:
        raise ConfigurationError(ErrorCode.MODEL_FAILED, f"{path} cannot be loaded: {error}") from error
    return OnnxModel(session, name=path.stem)


def _require_providers(wanted: tuple[str, ...]) -> None:
    installed = ort.get_available_providers()
    missing = [provider for provider in wanted if provider not in installed]
    if missing:
        raise ConfigurationError(
            ErrorCode.MODEL_FAILED,
            f"onnxruntime has no {', '.join(missing)} here; installed: {', '.join(installed)}",
        )


def session_options(compute: Compute) -> ort.SessionOptions:
    """Return how every session of the project runs: its threads, without spinning, silent but for errors."""
    options = ort.SessionOptions()
    options.intra_op_num_threads = compute.threads
    options.inter_op_num_threads = 1
    options.use_deterministic_compute = True
    options.log_severity_level = 3  # errors only
    options.add_session_config_entry("session.intra_op.allow_spinning", "0")  # a spinning thread steals the next slot
    return options


def _providers(compute: Compute) -> list[str | tuple[str, dict[str, Any]]]:
    # The CPU stays last in line: it runs the few operators that an accelerator lacks.
    providers = list(dict.fromkeys((*compute.providers, "CPUExecutionProvider")))
    return [*providers]
