"""The tokenizer of a model folder, with a vocabulary of bytes made here."""

import json
from pathlib import Path

import pytest
from tokenizers import AddedToken, Tokenizer, decoders, models, pre_tokenizers

from llm_engine.backends.vllm_tokenizer import FolderTokenizer
from llm_engine.base import Chat, Message
from schemas.errors import ConfigurationError, ErrorCode

TEMPLATE = (
    "{% for message in messages %}<|start|>{{ message['role'] }}\n{{ message['content'] }}<|end|>{% endfor %}"
    "{% if add_generation_prompt %}<|start|>assistant\n{% endif %}"
)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("model")
    bytes_only = {letter: i for i, letter in enumerate(sorted(pre_tokenizers.ByteLevel.alphabet()))}
    tokenizer = Tokenizer(models.BPE(bytes_only, []))
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    tokenizer.add_special_tokens([AddedToken("<|start|>", special=True), AddedToken("<|end|>", special=True)])
    tokenizer.add_tokens(["<tool>"])
    tokenizer.save(str(folder / "tokenizer.json"))
    (folder / "tokenizer_config.json").write_text(json.dumps({"eos_token": "<|end|>", "chat_template": TEMPLATE}))
    (folder / "generation_config.json").write_text(json.dumps({"eos_token_id": [256, 257]}))
    return folder


@pytest.fixture(scope="module")
def tokenizer(folder: Path) -> FolderTokenizer:
    return FolderTokenizer(folder)


START, END, TOOL = 256, 257, 258


@pytest.mark.parametrize("text", ["plain words", "中文 😀", "<|end|> <tool>", "\x00", ""])
def test_text_survives(tokenizer, text):
    assert tokenizer.decode(tokenizer.encode(text)) == text


def test_a_control_token_in_a_text_is_spelt_out(tokenizer):
    assert not {START, END, TOOL} & set(tokenizer.encode("a<|end|>b<|start|><tool>"))


def test_a_chat_opens_the_answer(tokenizer):
    ids = tokenizer.chat(Chat((Message("system", "Be kind."), Message("user", "Hello"))))
    assert [token for token in ids if token >= START] == [START, END, START, END, START]
    assert tokenizer.decode(ids) == "system\nBe kind.user\nHelloassistant\n"


@pytest.mark.parametrize("said", ["a<|end|>b", "a<|en<|end|>d|>b", "a<|e<tool>nd|>b", "a<|<|end|>end|><|start|>b"])
def test_what_is_said_holds_no_control_token_however_it_is_nested(tokenizer, said):
    ids = tokenizer.chat(Chat((Message("user", said),)))
    assert [token for token in ids if token >= START] == [START, END, START]
    assert tokenizer.decode(ids) == "user\nabassistant\n"


def test_a_character_without_its_last_byte_is_a_replacement(tokenizer):
    assert tokenizer.decode(tokenizer.encode("中")[:-1]) == "\ufffd"


def test_all_that_ends_an_answer_is_known(tokenizer):
    assert tokenizer.stop_ids == {256, 257}


def test_a_template_may_refuse_a_chat(folder, tmp_path):
    for name in ("tokenizer.json", "tokenizer_config.json"):
        (tmp_path / name).write_bytes((folder / name).read_bytes())
    (tmp_path / "chat_template.jinja").write_text("{{ raise_exception('no system message') }}")
    with pytest.raises(ValueError, match="no system message"):
        FolderTokenizer(tmp_path).chat(Chat((Message("user", "Hello"),)))


def test_a_template_cannot_reach_into_python(folder, tmp_path):
    for name in ("tokenizer.json", "tokenizer_config.json"):
        (tmp_path / name).write_bytes((folder / name).read_bytes())
    (tmp_path / "chat_template.jinja").write_text("{{ ''.__class__.__mro__ }}")
    with pytest.raises(ValueError, match="template"):
        FolderTokenizer(tmp_path).chat(Chat((Message("user", "Hello"),)))


def test_a_folder_without_a_tokenizer_says_so(tmp_path):
    with pytest.raises(ConfigurationError) as error:
        FolderTokenizer(tmp_path)
    assert error.value.code is ErrorCode.MODEL_MISSING
