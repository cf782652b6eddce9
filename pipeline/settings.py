"""Every setting, in one place. The only file that reads the environment.

``HALFSECOND_CACHE_DIR=/data/halfsecond halfsecond analyze clip.mp4`` sets ``cache_dir``, and so on for every field.
"""

import os
from pathlib import Path
from typing import Annotated, Literal

from pydantic import Field, ValidationError
from pydantic_settings import BaseSettings, SettingsConfigDict

from schemas.errors import ConfigurationError, ErrorCode


def _default_cache_dir() -> Path:
    return Path.home() / ".cache" / "halfsecond"


def _available_cores() -> int:
    # The affinity mask, not the machine: containers and taskset give a process fewer cores than the machine has.
    return max(1, len(os.sched_getaffinity(0)))


class Settings(BaseSettings):
    """What an installation may change. Defaults work on a laptop without a GPU."""

    model_config = SettingsConfigDict(env_prefix="HALFSECOND_", frozen=True, extra="forbid")

    cache_dir: Annotated[Path, Field(description="Weights live in <cache_dir>/weights")] = Field(
        default_factory=_default_cache_dir
    )
    weights_source: Annotated[
        str | None, Field(description="Folder or http(s) URL to take weights from instead of the package index")
    ] = None

    providers: Annotated[
        tuple[str, ...],
        Field(description="onnxruntime execution providers, best first (a JSON list)"),
    ] = ("CPUExecutionProvider",)
    cpu_slots: Annotated[int, Field(ge=1, description="Model calls and decodes that may run at the same time")] = Field(
        default_factory=_available_cores
    )
    decode_workers: Annotated[int, Field(ge=2, description="Warm decoder processes; a clip uses two")] = 2

    detector: Annotated[Literal["ssd", "yolox"], Field(description="yolox needs its file: see yolox_path")] = "ssd"
    yolox_path: Annotated[Path | None, Field(description="A YOLOX ONNX file; None: the one that was pulled")] = None
    asr_backend: Literal["ctranslate2", "openai"] = "ctranslate2"
    asr_device: Annotated[Literal["cpu", "cuda", "npu"], Field(description="openai backend only")] = "cpu"

    max_file_bytes: Annotated[int, Field(gt=0)] = 512 * 1024 * 1024
    max_duration_s: Annotated[float, Field(gt=0)] = 900.0
    max_pixels: Annotated[int, Field(gt=0, description="Of one frame; the default admits 7680 x 4320")] = 36_000_000
    decoder_memory_bytes: Annotated[int, Field(gt=0, description="Address space of one decoder process")] = (
        1_250 * 1024**2
    )


def load_settings() -> Settings:
    """Read the environment. Raises ``ConfigurationError`` that names the wrong variable."""
    try:
        return Settings()
    except ValidationError as error:
        first = error.errors()[0]
        name = "HALFSECOND_" + "_".join(str(part) for part in first["loc"]).upper()
        raise ConfigurationError(ErrorCode.BAD_SETTING, f"{name}: {first['msg']}") from error
