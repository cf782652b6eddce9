"""Opens the language model that the settings name, behind admission."""

import asyncio
from pathlib import Path

from llm_engine.admission import AdmissionPolicy, Router, RouteTable, StoreLimits, admit
from llm_engine.base import LLMEngine
from llm_engine.offload import Offload
from llm_engine.prompting import PromptBook, load_prompts
from pipeline.settings import Settings
from pipeline.weights.store import WeightStore
from schemas.errors import ConfigurationError, ErrorCode
from schemas.result import RESULT_SCHEMA_VERSION

EMBEDDED_WEIGHTS = "smollm2-135m-instruct"

MAX_CACHE_BYTES = 4 * 1024**2
"""Of remembered answers: texts of a sentence and a few numbers each."""


async def open_language_model(settings: Settings, weights: WeightStore, *, offload: Offload) -> LLMEngine | None:
    """Return the engine, to be closed by the caller; None when it is switched off.

    Takes 1 s embedded, 15 to 60 s with vLLM. Raises ``ConfigurationError`` when weights or settings are missing.
    """
    if settings.llm == "off":
        return None
    if settings.llm_heavy_server_url is not None and settings.llm_heavy_model is None:
        raise _missing("HALFSECOND_LLM_HEAVY_MODEL", "the folder with the larger model's tokenizer")
    prompts = load_prompts()
    light = _admitted(await _opened(settings, weights, prompts=prompts, offload=offload), settings, prompts)
    if settings.llm_heavy_server_url is None or settings.llm_heavy_model is None:
        return light
    servers = await _connected(settings.llm_heavy_server_url, settings.llm_heavy_model, prompts=prompts)
    table = RouteTable("light", "light", "heavy", heavy_from_tokens=settings.llm_heavy_from_tokens)
    return Router({"light": light, "heavy": _admitted(servers, settings, prompts)}, table)


def _admitted(engines: list[LLMEngine], settings: Settings, prompts: PromptBook) -> LLMEngine:
    cache = StoreLimits(settings.llm_cache_entries, MAX_CACHE_BYTES) if settings.llm_cache_entries else None
    policy = AdmissionPolicy(seats=settings.llm_seats, reserved=settings.llm_reserved_seats, cache=cache)
    return admit(engines, policy, versions=(prompts.version, str(RESULT_SCHEMA_VERSION)))


async def _opened(
    settings: Settings, weights: WeightStore, *, prompts: PromptBook, offload: Offload
) -> list[LLMEngine]:
    """Return the replicas that the settings name: one, unless there are several servers."""
    if settings.llm == "embedded":
        gguf = weights.path(EMBEDDED_WEIGHTS, "SmolLM2-135M-Instruct.Q8_0.gguf")
        return [await asyncio.to_thread(_embedded, settings, gguf, prompts=prompts, offload=offload)]
    if settings.llm_model is None:
        raise _missing("HALFSECOND_LLM_MODEL", "the folder of the model (its tokenizer, for a server)")
    if settings.llm == "vllm":
        from llm_engine.backends.vllm_args import VllmSettings
        from llm_engine.backends.vllm_engine import start
        from llm_engine.backends.vllm_platform import detect

        vllm = VllmSettings(settings.llm_model, detect(), max_num_seqs=settings.llm_seats, threads=settings.llm_threads)
        return [await start(vllm, prompts=prompts)]
    if settings.llm_server_url is None:
        raise _missing("HALFSECOND_LLM_SERVER_URL", "where the server answers, without /v1")
    return await _connected(settings.llm_server_url, settings.llm_model, prompts=prompts)


async def _connected(urls: str, tokenizer: Path, *, prompts: PromptBook) -> list[LLMEngine]:
    from llm_engine.backends.vllm_server import connect

    return [await connect(url.strip(), tokenizer=tokenizer, prompts=prompts) for url in urls.split(",")]


def _embedded(settings: Settings, gguf: Path, *, prompts: PromptBook, offload: Offload) -> LLMEngine:
    from llm_engine.backends.gguf_tokenizer import GgufTokenizer
    from llm_engine.backends.guidance import GuidanceConstraints
    from llm_engine.backends.llama_gguf import read_llama
    from llm_engine.backends.openvino_executor import OpenvinoExecutor
    from llm_engine.embedded import EmbeddedEngine
    from llm_engine.scheduler import SchedulerLimits

    tokenizer = GgufTokenizer(gguf)
    executor = OpenvinoExecutor(
        read_llama(gguf),
        threads=settings.llm_threads,
        num_blocks=settings.llm_kv_blocks,
        precision=settings.llm_precision,
    )
    constraints = GuidanceConstraints(tokenizer.to_json(), stop_ids=tokenizer.stop_ids, vocab_size=executor.vocab_size)
    return EmbeddedEngine(
        executor,
        tokenizer,
        prompts=prompts,
        constraints=constraints,
        name=f"{EMBEDDED_WEIGHTS}-q8_0-{settings.llm_precision}",
        limits=SchedulerLimits(max_seqs=settings.llm_seats),
        offload=offload,
    )


def _missing(variable: str, what: str) -> ConfigurationError:
    return ConfigurationError(ErrorCode.BAD_SETTING, f"{variable} is missing: {what}")
