"""What every executor promises, checked against the exact oracle, on a tiny random model and on the real one."""

from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import numpy as np
import pytest

from llm_engine.backends.llama_gguf import LlamaWeights, read_llama
from llm_engine.backends.llama_graph import llama_graph
from llm_engine.backends.numpy_executor import NumpyExecutor
from llm_engine.backends.openvino_executor import OpenvinoExecutor, Precision
from llm_engine.executor import Chunk, Logits
from schemas.errors import ConfigurationError, ErrorCode, StageError
from tests.unit.tiny_llama import random_tensors, write_llama

REAL = Path("smollm2-135m-instruct", "SmolLM2-135M-Instruct.Q8_0.gguf")
BLOCKS = 48

CAPITAL = (504, 3575, 282, 4649, 314)
"""The capital of France is"""
WATER = (12615, 36411, 418, 216, 33, 32, 32, 5027, 28, 284, 357, 43145, 418)
"""Water boils at 100 degrees, and it freezes at"""
NEWS = (
    *(8060, 42, 260, 2299, 3763, 260, 3403, 990, 2814, 655, 198, 17213, 42, 5288, 198, 198),
    *(8060, 42, 9478, 6641, 22463, 990, 260, 3466, 5461, 5489, 624, 3400, 198, 17213, 42),
)
"""Text: the team won the final after extra time / Label: sports / Text: shares fell sharply after ... / Label:"""

ROUNDING = 1e-3
"""Most that two orders of the same sums may differ in a logit.

A sum of f32 is rounded to 2^-24 of its size at each term; errors of either sign grow as the root of the number of
terms: 2e-6 for the 1,536 of the widest matrix, 2e-5 after the 60 layers that add to one another. Logits reach 34: 7e-4.
Measured on AVX2, where more than some 70 rows have a kernel of their own: 1.7e-4; on AVX-512: 0.
"""


@pytest.fixture(scope="module", params=["tiny", pytest.param("smollm2", marks=pytest.mark.models)])
def model(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> LlamaWeights:
    if request.param == "tiny":
        return read_llama(write_llama(tmp_path_factory.mktemp("model") / "tiny.gguf", random_tensors()))
    return read_llama(request.getfixturevalue("weights") / REAL)


@pytest.fixture(scope="module")
def oracle(model: LlamaWeights) -> NumpyExecutor:
    return NumpyExecutor(model, num_blocks=BLOCKS)


@pytest.fixture(scope="module")
def exact(model: LlamaWeights) -> Iterator[OpenvinoExecutor]:
    executor = OpenvinoExecutor(model, threads=1, num_blocks=BLOCKS, precision="f32")
    yield executor
    executor.close()


@pytest.fixture(scope="module")
def quantised(model: LlamaWeights) -> Iterator[OpenvinoExecutor]:
    executor = OpenvinoExecutor(model, threads=2, num_blocks=BLOCKS, precision="int8")
    yield executor
    executor.close()


@pytest.fixture(params=["exact", "quantised"])
def executor(request: pytest.FixtureRequest, exact: OpenvinoExecutor, quantised: OpenvinoExecutor) -> OpenvinoExecutor:
    return exact if request.param == "exact" else quantised


def sentence(executor: OpenvinoExecutor | NumpyExecutor, length: int, *, seed: int = 0) -> list[int]:
    """Tokens by chance."""
    return [int(token) for token in np.random.default_rng(seed).integers(1, executor.vocab_size, length)]


def chunk(
    tokens: Sequence[int], blocks: Sequence[int], *, start: int = 0, end: int | None = None, wants_logits: bool = True
) -> Chunk:
    end = len(tokens) if end is None else end
    return Chunk(tokens[:end], start, end, blocks, wants_logits)


def neighbours(executor: OpenvinoExecutor, lengths: Sequence[int]) -> list[Chunk]:
    """Other sequences, two blocks each, from block 8 on."""
    return [
        chunk(sentence(executor, length, seed=100 + i), [8 + 2 * i, 9 + 2 * i], wants_logits=i % 2 == 0)
        for i, length in enumerate(lengths)
    ]


def greedy(executor: OpenvinoExecutor | NumpyExecutor, prompt: Sequence[int], count: int) -> list[int]:
    """Continue ``prompt`` by ``count`` tokens, one a step."""
    tokens, start = list(prompt), 0
    for _ in range(count):
        logits = executor.execute([chunk(tokens, [0, 1], start=start)])
        start = len(tokens)
        tokens.append(int(logits[0].argmax()))
    return tokens[len(prompt) :]


def assert_alike(found: Logits, expected: Logits) -> None:
    """The same but for rounding: the likeliest token of one is the other's, or within 2 * ``ROUNDING`` of it."""
    np.testing.assert_allclose(found, expected, rtol=0, atol=ROUNDING)


# Right


@pytest.mark.parametrize("length", [1, 2, 50])
def test_exact_logits_are_the_oracles(exact: OpenvinoExecutor, oracle: NumpyExecutor, length: int) -> None:
    step = [chunk(sentence(exact, length), [3, 1])]
    assert_alike(exact.execute(step), oracle.execute(step))


def test_quantised_logits_lead_to_nearly_the_oracles_probabilities(
    quantised: OpenvinoExecutor, oracle: NumpyExecutor
) -> None:
    """With activations in int8 groups the Kullback-Leibler divergence is 0.003 to 0.009 on average, 0.05 at worst."""
    tokens = [token % quantised.vocab_size for token in (*NEWS, *WATER)]
    steps = [[chunk(tokens, [0, 1], end=end)] for end in range(4, len(tokens), 8)]
    pairs = [(oracle.execute(step)[0], quantised.execute(step)[0]) for step in steps]
    divergences = [divergence(a, b) for a, b in pairs]
    assert np.mean(divergences) < 0.02
    assert max(divergences) < 0.1
    assert np.mean([a.argmax() == b.argmax() for a, b in pairs]) >= 0.7


def divergence(a: Logits, b: Logits) -> float:
    p, q = (row - row.max() - np.log(np.exp(row - row.max()).sum()) for row in (a.astype(float), b.astype(float)))
    return float((np.exp(p) * (p - q)).sum())


@pytest.mark.parametrize("prompt", [CAPITAL, WATER])
def test_greedy_text_is_the_oracles(exact: OpenvinoExecutor, oracle: NumpyExecutor, prompt: tuple[int, ...]) -> None:
    prompt = tuple(token % exact.vocab_size for token in prompt)
    assert greedy(exact, prompt, 5) == greedy(oracle, prompt, 5)


# The same but for rounding, whatever shares the step and however it is cut: kernels are chosen by the rows of a step


@pytest.mark.parametrize("cuts", [[2], [32], [48], [20, 40]])
def test_a_sequence_in_chunks_gives_the_same_as_the_whole(executor: OpenvinoExecutor, cuts: list[int]) -> None:
    tokens = sentence(executor, 50)
    whole = executor.execute([chunk(tokens, [5, 2])])
    for start, end in zip([0, *cuts], [*cuts, 50], strict=True):
        logits = executor.execute([chunk(tokens, [2, 5], start=start, end=end, wants_logits=end == 50)])
    assert_alike(logits, whole)


@pytest.mark.parametrize("length", [2, 33])
@pytest.mark.parametrize("others", [[1], [1] * 15, [64, 64], [33, 1, 9]])
def test_a_prompt_gives_the_same_in_any_company(executor: OpenvinoExecutor, length: int, others: list[int]) -> None:
    mine = chunk(sentence(executor, length), [0, 1])
    alone = executor.execute([mine])[0]
    company = neighbours(executor, others)
    assert_alike(executor.execute([mine, *company])[0], alone)
    assert_alike(executor.execute([*company, mine])[-1], alone)


@pytest.mark.parametrize("length", [1, 47])
@pytest.mark.parametrize("others", [[1], [1] * 15, [64, 64], [33, 1, 9]])
def test_a_next_token_gives_the_same_in_any_company(executor: OpenvinoExecutor, length: int, others: list[int]) -> None:
    tokens = sentence(executor, length + 1)
    executor.execute([chunk(tokens, [0, 1], end=length, wants_logits=False)])
    mine = chunk(tokens, [0, 1], start=length)
    alone = executor.execute([mine])[0]
    assert_alike(executor.execute([mine, *neighbours(executor, others)])[0], alone)


def test_two_sequences_share_the_blocks_of_their_common_beginning(executor: OpenvinoExecutor) -> None:
    beginning = sentence(executor, 32)
    ends = [sentence(executor, 5, seed=1), sentence(executor, 9, seed=2)]
    alone = [executor.execute([chunk(beginning + end, [0, 1])])[0] for end in ends]
    executor.execute([chunk(beginning, [4], wants_logits=False)])
    shared = executor.execute(
        [chunk(beginning + end, [4, 5 + i], start=32) for i, end in enumerate(ends)],
    )
    assert_alike(shared, alone)


def test_the_same_step_gives_the_same_bits(executor: OpenvinoExecutor) -> None:
    step = [chunk(sentence(executor, 33), [0, 1]), *neighbours(executor, [64, 64])]
    np.testing.assert_array_equal(executor.execute(step), executor.execute(step))


# What comes back


def test_one_row_comes_back_for_each_chunk_that_wants_logits(executor: OpenvinoExecutor) -> None:
    chunks = neighbours(executor, [3, 4, 5])
    logits = executor.execute(chunks)
    assert logits.shape == (2, executor.vocab_size)
    assert logits.dtype == np.float32


def test_nobody_wants_logits(executor: OpenvinoExecutor) -> None:
    tokens = sentence(executor, 3)
    for step in ([], [chunk(tokens, [0], wants_logits=False)], [chunk(tokens, [0], end=1, wants_logits=False)]):
        assert executor.execute(step).shape == (0, executor.vocab_size)


def test_logits_outlive_the_next_step(executor: OpenvinoExecutor) -> None:
    first = executor.execute([chunk(sentence(executor, 4), [0])])
    before = first.copy()
    executor.execute([chunk(sentence(executor, 4, seed=1), [1])])
    np.testing.assert_array_equal(first, before)


def test_the_last_block_can_be_used(executor: OpenvinoExecutor) -> None:
    tokens = sentence(executor, 6)
    a = executor.execute([chunk(tokens, [0])])
    executor.execute([chunk(tokens, [BLOCKS - 1], end=5, wants_logits=False)])
    executor.execute([chunk(sentence(executor, 1, seed=1), [7])])  # a lone token, whose dummy has a block of its own
    b = executor.execute([chunk(tokens, [BLOCKS - 1], start=4)])
    assert_alike(a, b)


# Trimming and the end


def test_after_trimming_what_was_kept_is_kept_and_all_works(executor: OpenvinoExecutor) -> None:
    kept, tokens = sentence(executor, 40), sentence(executor, 60, seed=1)
    continued = executor.execute([chunk(kept, [0, 1])])
    whole = executor.execute([chunk(tokens, [2, 3])])
    executor.execute([chunk(kept, [0, 1], end=38, wants_logits=False)])
    executor.trim(range(2, BLOCKS))
    np.testing.assert_array_equal(executor.execute([chunk(tokens, [2, 3])]), whole)
    assert_alike(executor.execute([chunk(kept, [0, 1], start=38)]), continued)


def test_a_closed_executor_says_so(tmp_path: Path) -> None:
    weights = read_llama(write_llama(tmp_path / "tiny.gguf", random_tensors()))
    executor = OpenvinoExecutor(weights, threads=1, num_blocks=2)
    executor.close()
    executor.close()
    executor.trim([0])
    with pytest.raises(StageError, match="closed") as raised:
        executor.execute([Chunk([1, 2], 0, 2, [0], wants_logits=True)])
    assert raised.value.code is ErrorCode.ENGINE_FAILED
    assert raised.value.retryable


def test_the_model_is_named_by_all_that_its_cache_depends_on(
    model: LlamaWeights, exact: OpenvinoExecutor, quantised: OpenvinoExecutor, oracle: NumpyExecutor
) -> None:
    assert len({exact.model, quantised.model, oracle.model}) == 3
    assert all(model.sha256[:12] in name for name in (exact.model, quantised.model, oracle.model))


# What cannot be


IMPOSSIBLE: dict[str, Callable[[OpenvinoExecutor], Chunk]] = {
    "nothing to compute": lambda e: Chunk([1, 2], 2, 2, [0], wants_logits=True),
    "a negative start": lambda e: Chunk([1, 2], -1, 2, [0], wants_logits=True),
    "more positions than tokens": lambda e: Chunk([1, 2], 0, 3, [0], wants_logits=True),
    "too few blocks": lambda e: Chunk([1] * 33, 0, 33, [0], wants_logits=True),
    "an unknown block": lambda e: Chunk([1, 2], 0, 2, [BLOCKS], wants_logits=True),
    "a negative block": lambda e: Chunk([1, 2], 0, 2, [-1], wants_logits=True),
    "an unknown token": lambda e: Chunk([1, e.vocab_size], 0, 2, [0], wants_logits=True),
    "a negative token": lambda e: Chunk([1, -1], 0, 2, [0], wants_logits=True),
    "more than the model reads": lambda e: Chunk(
        [1] * (e.max_model_len + 1), e.max_model_len, e.max_model_len + 1, [0] * 100, wants_logits=True
    ),
}


@pytest.mark.parametrize("what", IMPOSSIBLE)
def test_a_chunk_that_cannot_be_is_refused_before_native_code_sees_it(executor: OpenvinoExecutor, what: str) -> None:
    tokens = sentence(executor, 5)
    before = executor.execute([chunk(tokens, [0])])
    with pytest.raises(ValueError, match=r"positions|blocks|block|token"):
        executor.execute([IMPOSSIBLE[what](executor)])
    np.testing.assert_array_equal(executor.execute([chunk(tokens, [0])]), before)


@pytest.mark.parametrize("precision", ["int8", "f32"])
def test_an_untied_head_is_used(tmp_path: Path, precision: Precision) -> None:
    weights = read_llama(write_llama(tmp_path / "untied.gguf", random_tensors(tied=False)))
    step = [Chunk([1, 2, 3], 0, 3, [0], wants_logits=True)]
    expected = NumpyExecutor(weights, num_blocks=2).execute(step)
    found = OpenvinoExecutor(weights, threads=1, num_blocks=2, precision=precision).execute(step)
    np.testing.assert_allclose(found, expected, atol=1e-3 if precision == "f32" else 0.3)


def test_another_openvino_is_refused(model: LlamaWeights, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("openvino.__version__", "2026.5.0-1-x")
    with pytest.raises(ConfigurationError, match=r"openvino==2026\.4\.1") as raised:
        llama_graph(model)
    assert raised.value.code is ErrorCode.MODEL_FAILED
