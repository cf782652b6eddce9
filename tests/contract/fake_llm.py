"""A toy engine that keeps every promise of ``LLMEngine``, in plain Python and with no model.

It keeps the contract suite honest: a suite that only real models pass may ask for what nobody promised. Like vLLM it
never takes a seat away from who has one.
"""

import asyncio
import codecs
import json
import math
import re
from collections import Counter
from collections.abc import AsyncIterator, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from hashlib import sha256
from random import Random
from typing import Any

from llm_engine.base import (
    Chat,
    EngineStats,
    FinishReason,
    LabelSet,
    LLMOutput,
    LLMRequest,
    PriorityClass,
    Prompt,
    Sampling,
)
from llm_engine.offload import until
from llm_engine.prose import plain, says_something
from llm_engine.schema import bounded
from llm_engine.untrusted import without_commands
from schemas.deadline import Deadline
from schemas.errors import ErrorCode, StageError

PIECE_BYTES = 3
"""A token: too short for an emoji, so that half characters must be held back."""

BLOCK_SIZE = 16
TOTAL_BLOCKS = 4096
MAX_MODEL_LEN = 4096
HEALTH_S = 5.0

VOCABULARY = ("one", "two", "three", "soup", "noodles", "market", "naïve", "面条", "汤", "🍜", "👩🏽‍🍳", "مرحبا")
PROSE_WORDS = 12
"""An answer to a prompt of ours. Chats are answered without end."""


@dataclass(slots=True, eq=False)
class _Run:
    """One request on its way. ``pieces``: the tokens of its answer, made when they are asked for."""

    request: LLMRequest
    prompt: list[bytes]
    pieces: Iterator[bytes]
    outputs: "asyncio.Queue[LLMOutput | StageError]" = field(default_factory=asyncio.Queue)
    decoder: codecs.IncrementalDecoder = field(default_factory=codecs.getincrementaldecoder("utf-8"))
    text: str = ""
    written: int = 0

    @property
    def urgency(self) -> tuple[int, float, float]:
        """Smaller goes first."""
        return self.request.priority, self.request.deadline.at_s, self.request.arrival_s

    def say(self, finish_reason: FinishReason | None = None) -> None:
        """Hand out the text so far."""
        self.outputs.put_nowait(LLMOutput(self.request.request_id, self.text, finish_reason))


class FakeEngine:
    """Implements ``LLMEngine``. One token a step of ``step_s`` for each of at most ``seats`` requests."""

    model = "fake"

    def __init__(self, *, seats: int = 4, step_s: float = 0.002) -> None:
        self._seats = seats
        self._step_s = step_s
        self._waiting: list[_Run] = []
        self._running: list[_Run] = []
        self._prefixes: set[int] = set()
        self._counts: Counter[str] = Counter()
        self._steps: asyncio.Task[None] | None = None
        self._why_dead: str | None = None

    def crash(self) -> None:
        """Break at the next step, for good."""
        self._why_dead = "the fake was told to crash"
        self._ensure_steps()

    async def generate(self, request: LLMRequest) -> AsyncIterator[LLMOutput]:
        """Answer ``request`` with words that depend on nothing but its prompt and sampling."""
        self._require_alive()
        run = self._admitted(request)
        try:
            while True:
                output = await run.outputs.get()
                if isinstance(output, StageError):
                    raise output
                yield output
                if output.finish_reason is not None:
                    return
        finally:
            self._end(run, "abort")

    async def score(
        self,
        prompt: Prompt,
        labels: LabelSet,
        *,
        deadline: Deadline,
        priority: PriorityClass = PriorityClass.REALTIME,
    ) -> Sequence[float]:
        """Return the more, the more words ``prompt`` shares with the phrases of a label."""
        async with until(deadline):
            self._require_alive()
            await asyncio.sleep(self._step_s)
            self._require_alive()
        self._counts["scored"] += 1
        asked = _words(cleaned(prompt.data))
        shared = [len(asked & _words(" ".join(labels.descriptions[label]))) for label in labels.labels]
        total = math.log(sum(map(math.exp, shared)))
        return [count - total for count in shared]

    async def warm(self, *label_sets: LabelSet) -> None:
        self._require_alive()

    async def prefetch(self, prompt: Prompt, *, deadline: Deadline) -> None:
        if not (deadline.expired or self._waiting or self._why_dead) and says_something(prompt.data):
            self._prefixes.update(_chain(pieces_of(worded(prompt))))

    async def abort(self, request_id: str) -> None:
        for run in [*self._waiting, *self._running]:
            if run.request.request_id == request_id:
                self._end(run, "abort")

    async def health(self) -> bool:
        asked = Prompt("health", "Is anybody there?", "hello")
        try:
            stream = self.generate(LLMRequest("health", asked, Deadline.after(HEALTH_S), sampling=Sampling(1)))
            return [output.finish_reason async for output in stream][-1] == "length"
        except StageError:
            return False

    async def trim(self) -> None:
        self._prefixes.clear()

    def stats(self) -> EngineStats:
        used = sum(math.ceil((len(run.prompt) + run.written) / BLOCK_SIZE) for run in self._running)
        return EngineStats(
            **self._counts,
            running=len(self._running),
            waiting=len(self._waiting),
            free_blocks=TOTAL_BLOCKS - used,
            total_blocks=TOTAL_BLOCKS,
        )

    async def close(self) -> None:
        self._why_dead = "the engine is closed"
        for run in [*self._waiting, *self._running]:
            self._end(run, "abort")

    def _require_alive(self) -> None:
        if self._why_dead:
            raise StageError(ErrorCode.ENGINE_FAILED, self._why_dead, retryable=True)

    def _admitted(self, request: LLMRequest) -> _Run:
        text = worded(request.prompt)
        prompt = pieces_of(text)
        if len(prompt) >= MAX_MODEL_LEN:
            raise StageError(ErrorCode.PROMPT_TOO_LONG, f"{len(prompt)} tokens, {MAX_MODEL_LEN} at most")
        run = _Run(request, prompt, _answer(request, text))
        self._counts["requests"] += 1
        self._waiting.append(run)
        self._ensure_steps()
        return run

    def _ensure_steps(self) -> None:
        if self._steps is None or self._steps.done():
            self._steps = asyncio.create_task(self._step_while_busy())

    async def _step_while_busy(self) -> None:
        while self._waiting or self._running:
            if self._why_dead:
                return self._fail_all()
            self._expire()
            self._take_seats()
            for run in tuple(self._running):
                self._write(run)
            await asyncio.sleep(self._step_s)
        return None

    def _expire(self) -> None:
        for run in [*self._waiting, *self._running]:
            if run.request.deadline.expired:
                self._end(run, "deadline")

    def _take_seats(self) -> None:
        self._waiting.sort(key=lambda run: run.urgency)
        while self._waiting and len(self._running) < self._seats:
            run = self._waiting.pop(0)
            self._running.append(run)
            self._read(run)

    def _read(self, run: _Run) -> None:
        chain = _chain(run.prompt)
        known = next((i for i, key in enumerate(chain) if key not in self._prefixes), len(chain))
        self._prefixes.update(chain)
        self._counts["prompt_tokens"] += len(run.prompt)
        self._counts["prefix_hit_tokens"] += known * BLOCK_SIZE

    def _write(self, run: _Run) -> None:
        piece = next(run.pieces, None)
        if piece is None:
            return self._end(run, "stop")
        run.written += 1
        self._counts["output_tokens"] += 1
        run.text += run.decoder.decode(piece)
        if run.written >= run.request.sampling.max_tokens or len(run.prompt) + run.written >= MAX_MODEL_LEN:
            return self._end(run, "length")
        return run.say()

    def _end(self, run: _Run, reason: FinishReason) -> None:
        for runs in (self._waiting, self._running):
            if run in runs:
                runs.remove(run)
                run.say(reason)
                self._counts["aborted"] += reason == "abort"
                self._counts["expired"] += reason == "deadline"

    def _fail_all(self) -> None:
        for run in [*self._waiting, *self._running]:
            run.outputs.put_nowait(StageError(ErrorCode.ENGINE_FAILED, str(self._why_dead), retryable=True))
            self._counts["failed"] += 1
        self._waiting.clear()
        self._running.clear()


def cleaned(text: str) -> str:
    """Return data without what a model could take for an order."""
    return without_commands(plain(text, max_chars=len(text) + 1))


def worded(prompt: Prompt | Chat) -> str:
    """Return what the model reads, the data last but for the end. Raises ``EMPTY_PROMPT``."""
    if isinstance(prompt, Chat):
        data = [cleaned(message.content) for message in prompt.messages if message.role == "user"]
        text = "\n".join(f"{message.role}: {cleaned(message.content)}" for message in prompt.messages)
    else:
        data = [cleaned(prompt.data)]
        text = f"{prompt.task}: {prompt.instruction}\n{data[0]}"
    if not any(map(says_something, data)):
        raise StageError(ErrorCode.EMPTY_PROMPT, "the prompt says nothing")
    return f"{text}\nassistant:"


def pieces_of(text: str) -> list[bytes]:
    """Return the tokens of ``text``."""
    encoded = text.encode()
    return [encoded[i : i + PIECE_BYTES] for i in range(0, len(encoded), PIECE_BYTES)]


def _chain(prompt: Sequence[bytes]) -> list[int]:
    """Return one key for each full block but the last token's: of all tokens up to the block's end."""
    ends = range(BLOCK_SIZE, len(prompt), BLOCK_SIZE)
    return [hash(tuple(prompt[:end])) for end in ends]


def _words(text: str) -> set[str]:
    """Return the words of ``text``; a Chinese character is one."""
    return set(re.findall(r"[\u4e00-\u9fff]|[^\W\u4e00-\u9fff]{3,}", text.lower()))


def _random(*seeds: object) -> Random:
    return Random(sha256(repr(seeds).encode()).digest())


def _answer(request: LLMRequest, text: str) -> Iterator[bytes]:
    if request.schema is not None:
        value = _example(bounded(request.schema), _random(text, request.sampling.seed))
        return iter(pieces_of(json.dumps(value, ensure_ascii=False)))
    words = _prose(text, request.sampling)
    if isinstance(request.prompt, Prompt):
        words = (word for _, word in zip(range(PROSE_WORDS), words, strict=False))
    return (piece for word in words for piece in pieces_of(f"{word} "))


def _prose(text: str, sampling: Sampling) -> Iterator[str]:
    """Write without end. The word of rank r is half as probable as the one before it."""
    ranking, choosing = _random(text), _random(text, sampling.seed)
    while True:
        ranked = ranking.sample(VOCABULARY, len(VOCABULARY))
        if sampling.temperature == 0:
            yield ranked[0]
            continue
        weights = [2 ** (-rank / sampling.temperature) for rank in range(len(ranked))]
        kept = [w for i, w in enumerate(weights) if sum(weights[:i]) < sampling.top_p * sum(weights)]
        yield choosing.choices(ranked[: len(kept)], kept)[0]


def _example(schema: Mapping[str, Any], random: Random) -> Any:
    """Return a value that fits a bounded ``schema``."""
    match schema:
        case {"enum": choices}:
            return random.choice(choices)
        case {"anyOf": choices}:
            return _example(random.choice(choices), random)
        case {"type": "object", "properties": properties, "required": required}:
            given = {name: part for name, part in properties.items() if name in required or random.random() < 0.5}
            return {name: _example(part, random) for name, part in given.items()}
        case {"type": "array", "items": items, "maxItems": most}:
            return [_example(items, random) for _ in range(random.randint(schema.get("minItems", 0), most))]
        case {"type": "string", "maxLength": most}:
            return "".join(random.choices('ab ñ面🍜"\\\n', k=random.randint(schema.get("minLength", 0), most)))
        case {"type": "integer", "minimum": least, "maximum": most}:
            return random.randint(least, most)
        case {"type": "number", "minimum": least, "maximum": most}:
            return random.uniform(least, most)
        case {"type": "boolean"}:
            return random.random() < 0.5
        case _:
            return None
