"""What our vLLM files take for granted about the installed vLLM. Skipped, visibly, where there is none."""

import logging
import warnings
from pathlib import Path
from typing import Any

import pytest

from llm_engine.backends.vllm_args import VllmSettings, engine_arguments, known
from llm_engine.backends.vllm_platform import Platform, detect
from llm_engine.backends.vllm_tokenizer import FolderTokenizer
from llm_engine.backends.vllm_weights import unpacked
from llm_engine.base import Chat, Message
from tests.vllm_servers import gguf_file, missing_vllm_reason, vllm_cache

pytestmark = [
    pytest.mark.models,
    pytest.mark.timeout(300),
    pytest.mark.skipif(missing_vllm_reason() is not None, reason=str(missing_vllm_reason())),
]


@pytest.fixture(scope="module")
def folder() -> Path:
    return unpacked(gguf_file(), vllm_cache())


@pytest.fixture(scope="module")
def reference(folder: Path) -> Any:
    from transformers import AutoTokenizer

    return AutoTokenizer.from_pretrained(folder)


def test_vllm_on_a_cpu_is_found_as_such():
    assert detect() is Platform.CPU


def test_unpacking_twice_unpacks_once(folder):
    before = (folder / "model.safetensors").stat().st_mtime_ns
    assert unpacked(gguf_file(), vllm_cache()) == folder
    assert (folder / "model.safetensors").stat().st_mtime_ns == before


@pytest.mark.parametrize("platform", Platform)
def test_the_installed_vllm_knows_every_argument(platform, folder, caplog):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of vLLM's imports
        from vllm.engine.arg_utils import AsyncEngineArgs
    arguments = engine_arguments(VllmSettings(folder, platform, step_tokens=64, kv_cache_gib=1.0, quantization="fp8"))
    with caplog.at_level(logging.WARNING):
        assert known(arguments, AsyncEngineArgs) == arguments
    assert not [record for record in caplog.records if record.name.startswith("llm_engine")]


@pytest.mark.parametrize("text", ["We ate soup.", "妈妈煮了一锅面汤", "👩🏽‍🍳🍜", "  two  blanks\n\nlines", "1234567"])
def test_our_tokenizer_cuts_as_the_models_own(folder, reference, text):
    ours = FolderTokenizer(folder)
    assert ours.encode(text) == reference.encode(text, add_special_tokens=False)
    chat = [{"role": "system", "content": "Be kind."}, {"role": "user", "content": text}]
    theirs = reference.apply_chat_template(chat, add_generation_prompt=True, return_dict=True)["input_ids"]
    assert ours.chat(Chat((Message("system", "Be kind."), Message("user", text)))) == theirs
    assert ours.stop_ids == {reference.eos_token_id}
