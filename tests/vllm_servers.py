"""Real vLLM engines for tests, where vLLM is installed: in this process, and as a server on loopback.

Starting one takes 15 to 60 s and 2.6 GB: use them in fixtures of a module or of the session.
"""

import asyncio
import os
import signal
import socket
import subprocess
import sys
import tempfile
import time
import warnings
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, replace
from importlib.util import find_spec
from multiprocessing import active_children
from pathlib import Path
from typing import IO

import httpx2

from llm_engine.backends.vllm_adapter import VllmAdapter
from llm_engine.backends.vllm_args import VllmSettings, environment, server_options
from llm_engine.backends.vllm_engine import start
from llm_engine.backends.vllm_platform import Platform
from llm_engine.backends.vllm_server import connect
from llm_engine.backends.vllm_weights import unpacked
from llm_engine.prompting import load_prompts
from tests.conftest import weights_dir

START_S = 300.0
"""Far above the slowest start seen (65 s, byte code not compiled yet)."""


def missing_vllm_reason() -> str | None:
    """Why no vLLM can run here; None when it can."""
    if find_spec("vllm") is None:
        return "vLLM is not installed in this environment: make test-vllm"
    if not gguf_file().is_file():
        return f"no language model in {weights_dir()}: run 'halfsecond models pull'"
    return None


def gguf_file() -> Path:
    """Where the pulled language model lies."""
    return weights_dir() / "smollm2-135m-instruct" / "SmolLM2-135M-Instruct.Q8_0.gguf"


def vllm_cache() -> Path:
    """Where it lies unpacked for vLLM."""
    return weights_dir().parent / "vllm"


@dataclass(frozen=True, slots=True)
class RunningVllm:
    """An engine, and what takes its vLLM away as a crash or a power cut would."""

    engine: VllmAdapter
    kill: Callable[[], None]


@asynccontextmanager
async def vllm_in_process(**changes: object) -> AsyncIterator[RunningVllm]:
    """Yield an engine of this process; ``changes`` are fields of ``VllmSettings``."""
    before = set(active_children())
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of vLLM's imports
        engine = await start(_settings(**changes), prompts=load_prompts())
    core = set(active_children()) - before
    try:
        yield RunningVllm(engine, lambda: [process.kill() for process in core] and None)
    finally:
        await engine.close()


@asynccontextmanager
async def vllm_server_on_loopback(**changes: object) -> AsyncIterator[RunningVllm]:
    """Yield the engine that talks to a server of its own on a free port."""
    settings = _settings(**changes)
    port = _free_port()
    url = f"http://127.0.0.1:{port}"
    with tempfile.TemporaryFile() as output:
        process = _serve(settings, port, output)
        try:
            await _answering(url, process, output)
            engine = await connect(url, tokenizer=settings.model, prompts=load_prompts())
            yield RunningVllm(engine, lambda: os.killpg(process.pid, signal.SIGKILL))
            await engine.close()
        finally:
            await asyncio.to_thread(_end, process)


def _settings(**changes: object) -> VllmSettings:
    settings = VllmSettings(unpacked(gguf_file(), vllm_cache()), Platform.CPU)
    return replace(settings, **changes)  # type: ignore[arg-type]


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


def _serve(settings: VllmSettings, port: int, output: IO[bytes]) -> "subprocess.Popen[bytes]":
    command = [sys.executable, "-m", "vllm.entrypoints.openai.api_server", *server_options(settings)]
    return subprocess.Popen(
        [*command, "--host", "127.0.0.1", "--port", str(port)],
        env=os.environ | environment(settings),
        stdout=output,
        stderr=subprocess.STDOUT,
        start_new_session=True,  # so that its children end with it
    )


async def _answering(url: str, process: "subprocess.Popen[bytes]", output: IO[bytes]) -> None:
    give_up_s = time.monotonic() + START_S
    async with httpx2.AsyncClient(base_url=url, trust_env=False) as client:
        while True:
            with suppress(httpx2.HTTPError):
                if (await client.get("/health")).is_success:
                    return
            if process.poll() is not None or time.monotonic() > give_up_s:
                output.seek(0)
                raise RuntimeError(f"vLLM's server did not start:\n{output.read()[-4000:].decode(errors='replace')}")
            await asyncio.sleep(0.25)


def _end(process: "subprocess.Popen[bytes]") -> None:
    for number in (signal.SIGTERM, signal.SIGKILL):
        with suppress(ProcessLookupError, subprocess.TimeoutExpired):
            os.killpg(process.pid, number)
            process.wait(10)
    process.wait()
