"""Every setting, in one place. The only file that reads the environment.

``HALFSECOND_CACHE_DIR=/data/halfsecond halfsecond analyze clip.mp4`` sets ``cache_dir``, and so on for every field.
"""

import os
from pathlib import Path
from typing import Annotated, Literal

from pydantic import AliasChoices, Field, SecretStr, ValidationError
from pydantic_settings import BaseSettings, SettingsConfigDict

from schemas.errors import ConfigurationError, ErrorCode

INSTRUCTION_SET_LIMITS = (
    *("CT2_FORCE_CPU_ISA", "MKL_ENABLE_INSTRUCTIONS", "DNNL_MAX_CPU_ISA", "ONEDNN_MAX_CPU_ISA"),
    "NPY_DISABLE_CPU_FEATURES",
)
"""Variables of CTranslate2 and its MKL, oneDNN (in CTranslate2 and OpenVINO) and NumPy."""


def _default_cache_dir() -> Path:
    return Path.home() / ".cache" / "halfsecond"


def _available_cores() -> int:
    # The affinity mask, not the machine: containers and taskset give a process fewer cores than the machine has.
    return max(1, len(os.sched_getaffinity(0)))


class Settings(BaseSettings):
    """What an installation may change. Defaults work on a laptop without a GPU."""

    model_config = SettingsConfigDict(env_prefix="HALFSECOND_", frozen=True, extra="forbid", populate_by_name=True)

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
    decode_workers: Annotated[
        int,
        Field(ge=2, description="Warm decoder processes; a clip uses two at first. A worker has two more than places"),
    ] = 2

    detector: Annotated[Literal["ssd", "yolox"], Field(description="yolox needs its file: see yolox_path")] = "ssd"
    yolox_path: Annotated[Path | None, Field(description="A YOLOX ONNX file; None: the one that was pulled")] = None
    asr_backend: Literal["ctranslate2", "openai"] = "ctranslate2"
    asr_device: Annotated[Literal["cpu", "cuda", "npu"], Field(description="openai backend only")] = "cpu"

    llm: Annotated[
        Literal["embedded", "vllm", "vllm-server", "off"],
        Field(description="Who reads moods and writes summaries; off: lexicons and quotations alone"),
    ] = "embedded"
    llm_threads: Annotated[int, Field(ge=1, description="Of one step of the model; embedded, and vLLM on a CPU")] = (
        Field(default_factory=lambda: min(2, _available_cores()))
    )
    llm_precision: Annotated[
        Literal["int8", "f32"], Field(description="embedded: f32 multiplies exactly, at twice the cost")
    ] = "int8"
    llm_kv_blocks: Annotated[
        int, Field(ge=32, description="embedded: blocks of 32 tokens for keys and values, 1.4 MB each")
    ] = 96
    llm_seats: Annotated[int, Field(ge=2, description="Requests that the model runs at once")] = 16
    llm_reserved_seats: Annotated[int, Field(ge=1, description="Of the seats: for realtime only")] = 4
    llm_model: Annotated[
        Path | None, Field(description="vllm: folder of the model; vllm-server: folder with its tokenizer")
    ] = None
    llm_server_url: Annotated[
        str | None, Field(description="vllm-server: http(s)://host:port, without /v1; several with commas: replicas")
    ] = None
    llm_heavy_server_url: Annotated[
        str | None, Field(description="A vLLM server with a larger model, for long texts, beside the one above")
    ] = None
    llm_heavy_model: Annotated[Path | None, Field(description="Folder with the tokenizer of the larger model")] = None
    llm_heavy_from_tokens: Annotated[
        int, Field(ge=1, description="Prompt and answer together, from which the larger model writes")
    ] = 512
    llm_cache_entries: Annotated[int, Field(ge=0, description="Answers that are remembered; 0: none")] = 4096

    kafka_bootstrap: Annotated[
        str,
        Field(
            min_length=1,
            description="host:port of a broker; several with commas. KAFKA_BOOTSTRAP will do, too",
            validation_alias=AliasChoices("HALFSECOND_KAFKA_BOOTSTRAP", "KAFKA_BOOTSTRAP"),
        ),
    ] = "127.0.0.1:9092"
    kafka_security: Literal["PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL"] = "PLAINTEXT"
    kafka_mechanism: Annotated[
        Literal["PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512"], Field(description="How a user logs in; SASL_* only")
    ] = "SCRAM-SHA-512"
    kafka_username: str | None = None
    kafka_password: SecretStr | None = None
    kafka_ca_file: Annotated[Path | None, Field(description="PEM; None: the system's authorities")] = None
    topic_prefix: Annotated[
        str, Field(pattern=r"^[A-Za-z0-9._-]{0,100}$", description="Before each topic's name: staging., a team's own")
    ] = ""
    group_id: Annotated[str, Field(min_length=1, max_length=200, description="Workers that share the jobs")] = (
        "halfsecond"
    )

    worker_places: Annotated[
        int, Field(ge=1, description="Jobs that a worker may have under way at once; by default two a core")
    ] = Field(default_factory=lambda: 2 * _available_cores())
    exactly_once: Annotated[
        bool,
        Field(description="Answers and offsets in transactions: none twice, after crashes too; takes some 30 ms"),
    ] = False
    worker_id: Annotated[
        str | None,
        Field(
            pattern=r"^[A-Za-z0-9._-]{1,100}$",
            description="Unlike any other worker's. None: host and process. With exactly_once, one that a restarted "
            "worker keeps lets it end at once what it had left open",
        ),
    ] = None
    hand_over_rejected: Annotated[
        bool, Field(description="Realtime jobs that could not be answered in time go on in the backfill lane")
    ] = True
    http_host: Annotated[str, Field(description="Of /livez, /readyz and /metrics; 0.0.0.0 in a container")] = (
        "127.0.0.1"
    )
    http_port: Annotated[int, Field(ge=0, le=65_535, description="0: any that is free")] = 8080

    fetch_roots: Annotated[
        tuple[Path, ...], Field(description="Folders below which file: jobs may read (a JSON list); none refuses them")
    ] = ()
    fetch_allow_private: Annotated[
        tuple[str, ...], Field(description="CIDRs that http(s) jobs may reach besides public addresses (a JSON list)")
    ] = ()
    fetch_ports: Annotated[tuple[int, ...], Field(description="That http(s) jobs may ask (a JSON list)")] = (80, 443)
    fetch_timeout_s: Annotated[float, Field(gt=0, description="Of one clip, whose job may have more time or less")] = (
        30.0
    )
    fetch_cache_bytes: Annotated[int, Field(ge=0, description="Clips kept in <cache_dir>/clips")] = 2 * 1024**3
    s3_buckets: Annotated[
        tuple[str, ...], Field(description="That s3: jobs may read from (a JSON list); none refuses them")
    ] = ()
    s3_endpoint: Annotated[str | None, Field(description="http(s)://host:port; None: Amazon's own")] = None
    s3_region: str = "us-east-1"
    s3_access_key_id: Annotated[
        SecretStr | None, Field(description="None: the credentials of the environment, the pod or the instance")
    ] = None
    s3_secret_access_key: SecretStr | None = None

    max_file_bytes: Annotated[int, Field(gt=0)] = 512 * 1024 * 1024
    max_duration_s: Annotated[float, Field(gt=0)] = 900.0
    max_pixels: Annotated[int, Field(gt=0, description="Of one frame; the default admits 7680 x 4320")] = 36_000_000
    decoder_memory_bytes: Annotated[int, Field(gt=0, description="Address space of one decoder process")] = (
        1_250 * 1024**2
    )


def instruction_set_limits() -> dict[str, str]:
    """Return what holds model runtimes to less than the processor has: what units cost depends on it."""
    return {name: os.environ[name] for name in INSTRUCTION_SET_LIMITS if name in os.environ}


def load_settings() -> Settings:
    """Read the environment. Raises ``ConfigurationError`` that names the wrong variable."""
    try:
        return Settings()
    except ValidationError as error:
        first = error.errors()[0]
        name = "_".join(str(part) for part in first["loc"]).upper()
        name = name if name.endswith("KAFKA_BOOTSTRAP") else f"HALFSECOND_{name}"
        raise ConfigurationError(ErrorCode.BAD_SETTING, f"{name}: {first['msg']}") from error
