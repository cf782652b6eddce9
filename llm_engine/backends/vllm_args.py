"""What vLLM is started with, by platform. Imports no vLLM: one table for calls, commands and manifests."""

import dataclasses
import json
import logging
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from llm_engine.backends.vllm_platform import Platform

_log = logging.getLogger(__name__)

Arguments = dict[str, Any]

LOGPROBS = 128
"""vLLM's own bound on the tokens whose log-probabilities one request may name."""


@dataclass(frozen=True, slots=True)
class VllmSettings:
    """What an operator decides. Everything else follows from the platform."""

    model: Path
    """Folder with config, safetensors and tokenizer. Nothing is downloaded."""
    platform: Platform
    served_name: str = "halfsecond"
    max_model_len: int = 2048
    max_num_seqs: int = 32
    """Seats. vLLM pre-empts nobody for a seat: admission keeps some free for realtime."""
    step_tokens: int | None = None
    """Budget of one step. An urgent request waits for the step under way; None is vLLM's choice (a CPU gets 256)."""
    kv_cache_gib: float | None = None
    """None is vLLM's choice: a share of the device's memory (a CPU gets 1)."""
    tensor_parallel: int = 1
    quantization: str | None = None
    """``ascend`` for W8A8 weights on an NPU; None reads it from the model."""
    threads: int = 1
    """Of the CPU platform."""


_CPU: Arguments = {
    "dtype": "float32",  # bf16 is 7 times slower where the processor has no bf16 instructions
    "enforce_eager": True,  # compiling takes minutes and gains nothing on a small model
    "block_size": 32,  # the smallest that its kernels take: a short prefix still fills whole blocks
    "max_num_batched_tokens": 256,
    "kv_cache_memory_bytes": 1 << 30,
}

_ASCEND: Arguments = {
    # ACL graphs of the decode steps; prefill runs op by op. The block size is not named: it is 128 there.
    "compilation_config": {"cudagraph_mode": "FULL_DECODE_ONLY"},
}


def engine_arguments(settings: VllmSettings) -> Arguments:
    """Return the arguments of vLLM's ``AsyncEngineArgs`` for ``settings``, by their names in 0.23 to 0.32."""
    arguments: Arguments = {
        "model": str(settings.model),
        "served_model_name": settings.served_name,
        "max_model_len": settings.max_model_len,
        "max_num_seqs": settings.max_num_seqs,
        "max_logprobs": LOGPROBS,
        "scheduling_policy": "priority",
        "enable_prefix_caching": True,
        "enable_chunked_prefill": True,
        "structured_outputs_config": {"backend": "xgrammar", "disable_any_whitespace": True},
        "generation_config": "vllm",  # what a model's author likes to sample with is not ours
        "trust_remote_code": False,
        "tensor_parallel_size": settings.tensor_parallel,
    }
    arguments |= {Platform.CPU: _CPU, Platform.ASCEND: _ASCEND, Platform.CUDA: {}}[settings.platform]
    if settings.step_tokens is not None:
        arguments["max_num_batched_tokens"] = settings.step_tokens
    if settings.kv_cache_gib is not None:
        arguments["kv_cache_memory_bytes"] = int(settings.kv_cache_gib * (1 << 30))
    if settings.quantization is not None:
        arguments["quantization"] = settings.quantization
    return arguments


_EVERYWHERE = {"HF_HUB_OFFLINE": "1", "VLLM_NO_USAGE_STATS": "1", "DO_NOT_TRACK": "1"}

_ASCEND_ENVIRONMENT = {
    "PYTORCH_NPU_ALLOC_CONF": "expandable_segments:True",  # less fragmentation of the device's memory
    "TASK_QUEUE_ENABLE": "1",  # operators are launched from a queue of their own
    "HCCL_OP_EXPANSION_MODE": "AIV",  # collectives run on the vector cores
    "CPU_AFFINITY_CONF": "1",  # each worker stays near its card
}


def environment(settings: VllmSettings) -> dict[str, str]:
    """Return the environment variables that vLLM must find before it is imported."""
    if settings.platform is Platform.CPU:
        threads = {"OMP_NUM_THREADS": str(settings.threads), "VLLM_CPU_OMP_THREADS_BIND": "nobind"}
        # A vllm-ascend that is installed beside it would be loaded as a plug-in, and needs CANN.
        return _EVERYWHERE | threads | {"VLLM_PLUGINS": "", "VLLM_ENABLE_V1_MULTIPROCESSING": "0"}
    return _EVERYWHERE | (_ASCEND_ENVIRONMENT if settings.platform is Platform.ASCEND else {})


def known(arguments: Mapping[str, Any], dataclass_type: type) -> Arguments:
    """Return those of ``arguments`` that the installed vLLM's ``dataclass_type`` has a field for; log the others."""
    fields = {field.name for field in dataclasses.fields(dataclass_type)}
    for name in sorted(arguments.keys() - fields):
        _log.warning("this vLLM knows no engine argument %s: left out", name)
    return {name: value for name, value in arguments.items() if name in fields}


def server_options(settings: VllmSettings) -> list[str]:
    """Return the same as options of vLLM's OpenAI server, which also tells how much of a prompt was in its cache."""
    arguments = engine_arguments(settings) | {"enable_prompt_tokens_details": True}
    return [word for name, value in arguments.items() for word in _option(name.replace("_", "-"), value)]


def _option(name: str, value: object) -> list[str]:
    if isinstance(value, bool):
        return [f"--{name}" if value else f"--no-{name}"]
    return [f"--{name}", json.dumps(value) if isinstance(value, dict) else str(value)]
