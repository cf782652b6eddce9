"""Which language model is opened follows from the settings, and what is missing is named."""

from pathlib import Path

import pytest

from llm_engine.offload import in_thread
from pipeline.language_model import open_language_model
from pipeline.settings import Settings
from pipeline.weights.catalog import load_catalog
from pipeline.weights.store import WeightStore
from schemas.errors import ConfigurationError, ErrorCode


async def opened(folder: Path, **settings: object) -> object:
    store = WeightStore(folder / "weights", catalog=load_catalog())
    return await open_language_model(Settings(cache_dir=folder, **settings), store, offload=in_thread)  # type: ignore[arg-type]


async def test_switched_off_there_is_none(tmp_path: Path) -> None:
    assert await opened(tmp_path, llm="off") is None


async def test_missing_weights_are_named(tmp_path: Path) -> None:
    with pytest.raises(ConfigurationError, match="SmolLM2") as raised:
        await opened(tmp_path, llm="embedded")
    assert raised.value.code is ErrorCode.MODEL_MISSING


@pytest.mark.parametrize(
    ("settings", "variable"),
    [
        ({"llm": "vllm"}, "HALFSECOND_LLM_MODEL"),
        ({"llm": "vllm-server"}, "HALFSECOND_LLM_MODEL"),
        ({"llm": "vllm-server", "llm_model": "/models/small"}, "HALFSECOND_LLM_SERVER_URL"),
        ({"llm": "embedded", "llm_heavy_server_url": "http://127.0.0.1:1"}, "HALFSECOND_LLM_HEAVY_MODEL"),
    ],
)
async def test_a_missing_setting_is_named(tmp_path: Path, settings: dict[str, object], variable: str) -> None:
    with pytest.raises(ConfigurationError, match=variable) as raised:
        await opened(tmp_path, **settings)
    assert raised.value.code is ErrorCode.BAD_SETTING
