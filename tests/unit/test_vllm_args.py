"""What vLLM would be started with, on machines that are not here."""

import json
import logging
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from llm_engine.backends.vllm_args import VllmSettings, engine_arguments, environment, known, server_options
from llm_engine.backends.vllm_platform import Platform


def settings(platform: Platform, **changes: Any) -> VllmSettings:
    return VllmSettings(Path("/models/m"), platform, **changes)


@pytest.mark.parametrize("platform", Platform)
def test_every_platform_orders_by_priority_and_keeps_prefixes(platform):
    arguments = engine_arguments(settings(platform, max_model_len=1000, max_num_seqs=7))
    wanted = {
        "model": "/models/m",
        "scheduling_policy": "priority",
        "enable_prefix_caching": True,
        "enable_chunked_prefill": True,
        "structured_outputs_config": {"backend": "xgrammar", "disable_any_whitespace": True},
        "max_model_len": 1000,
        "max_num_seqs": 7,
        "trust_remote_code": False,
    }
    assert wanted.items() <= arguments.items()


def test_a_cpu_computes_eagerly_in_single_precision():
    arguments = engine_arguments(settings(Platform.CPU))
    assert (arguments["dtype"], arguments["enforce_eager"]) == ("float32", True)
    assert arguments["block_size"] % 32 == 0


def test_an_npu_has_its_own_block_size_and_graphs():
    arguments = engine_arguments(settings(Platform.ASCEND))
    assert not {"block_size", "dtype", "enforce_eager"} & arguments.keys()
    assert arguments["compilation_config"] == {"cudagraph_mode": "FULL_DECODE_ONLY"}


def test_a_gpu_keeps_what_vllm_chooses():
    assert (
        not {"block_size", "dtype", "enforce_eager", "compilation_config"}
        & engine_arguments(settings(Platform.CUDA)).keys()
    )


def test_what_the_operator_decides_wins():
    arguments = engine_arguments(
        settings(Platform.CPU, step_tokens=64, kv_cache_gib=0.5, tensor_parallel=2, quantization="ascend")
    )
    assert arguments["max_num_batched_tokens"] == 64
    assert arguments["kv_cache_memory_bytes"] == 1 << 29
    assert (arguments["tensor_parallel_size"], arguments["quantization"]) == (2, "ascend")


def test_nothing_is_downloaded_or_reported_anywhere():
    for platform in Platform:
        wanted = {"HF_HUB_OFFLINE": "1", "VLLM_NO_USAGE_STATS": "1"}
        assert wanted.items() <= environment(settings(platform)).items()


def test_a_cpu_loads_no_plug_in_and_keeps_to_its_threads():
    variables = environment(settings(Platform.CPU, threads=3))
    assert (variables["VLLM_PLUGINS"], variables["OMP_NUM_THREADS"]) == ("", "3")


def test_an_npu_needs_its_plug_in():
    variables = environment(settings(Platform.ASCEND))
    assert "VLLM_PLUGINS" not in variables
    assert variables["TASK_QUEUE_ENABLE"] == "1"


@dataclass
class OldArguments:
    model: str = ""
    max_num_seqs: int = 0


def test_what_the_installed_version_does_not_know_is_dropped_with_a_word(caplog):
    with caplog.at_level(logging.WARNING):
        kept = known({"model": "m", "max_num_seqs": 3, "invented_later": 1, "also_new": 2}, OldArguments)
    assert OldArguments(**kept) == OldArguments("m", 3)
    assert [record.getMessage().split()[-3] for record in caplog.records] == ["also_new:", "invented_later:"]


def test_the_servers_options_say_the_same():
    options = server_options(settings(Platform.CPU))
    assert options[options.index("--max-num-seqs") + 1] == "32"
    assert "--enable-prefix-caching" in options
    assert "--no-trust-remote-code" in options
    constrained = json.loads(options[options.index("--structured-outputs-config") + 1])
    assert constrained["disable_any_whitespace"]
