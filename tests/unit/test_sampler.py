"""Choosing tokens: greedy, by chance, within a nucleus, within rules."""

import numpy as np
import numpy.typing as npt
import pytest

from llm_engine.base import Sampling
from llm_engine.sampler import Row, Sampler, log_softmax
from schemas.errors import ErrorCode, StageError


def row(*logits: float) -> Row:
    return np.array(logits, np.float32)


def noise(size: int = 1000, seed: int = 0) -> Row:
    return np.random.default_rng(seed).normal(scale=3, size=size).astype(np.float32)


def drawn(logits: Row, *, times: int = 4000, **sampling: float) -> npt.NDArray[np.float64]:
    """Share of each token among many draws."""
    sampler = Sampler(Sampling(seed=7, **sampling))  # type: ignore[arg-type]
    counts = np.bincount([sampler.choose(logits) for _ in range(times)], minlength=len(logits))
    return counts / times


class OnlyThese:
    """A constraint that allows a fixed set, and notes what it is told."""

    finished = False

    def __init__(self, size: int, *allowed: int) -> None:
        self.told: list[int] = []
        self._mask = np.zeros(size, np.bool_)
        self._mask[list(allowed)] = True

    def mask(self) -> npt.NDArray[np.bool_]:
        return self._mask

    def advance(self, token_id: int) -> None:
        self.told.append(token_id)


def test_greedy_takes_the_largest() -> None:
    assert Sampler(Sampling()).choose(row(0, 3, 1)) == 1


def test_greedy_takes_the_lowest_id_of_equals() -> None:
    assert Sampler(Sampling()).choose(row(0, 3, 3, 3)) == 1


def test_chance_follows_the_softmax() -> None:
    assert drawn(row(0, np.log(2), np.log(5)), temperature=1.0) == pytest.approx([1 / 8, 2 / 8, 5 / 8], abs=0.03)


def test_heat_makes_tokens_more_alike_and_cold_less() -> None:
    logits = row(0, 1)
    assert drawn(logits, temperature=100.0)[0] == pytest.approx(0.5, abs=0.03)
    assert drawn(logits, temperature=0.1)[0] < 0.01


@pytest.mark.parametrize("temperature", [1e-3, 1e-30, 1e-320])
def test_next_to_no_temperature_is_greedy(temperature: float) -> None:
    logits = noise()
    assert Sampler(Sampling(temperature=temperature, seed=1)).choose(logits) == int(np.argmax(logits))


def test_a_nucleus_holds_the_fewest_tokens_with_its_share() -> None:
    shares = drawn(row(*np.log([0.5, 0.3, 0.15, 0.05])), temperature=1.0, top_p=0.7)
    assert shares == pytest.approx([5 / 8, 3 / 8, 0, 0], abs=0.03)
    assert shares[2:].sum() == 0


def test_a_tiny_nucleus_is_greedy() -> None:
    assert Sampler(Sampling(temperature=2.0, top_p=1e-9)).choose(row(1, 1, 2, 1)) == 2


@pytest.mark.parametrize("top_p", [0.1, 0.5, 0.9, 0.999])
def test_the_nucleus_is_that_of_a_full_sort(top_p: float) -> None:
    logits = noise()
    probabilities = np.exp(log_softmax(logits))
    order = np.argsort(-probabilities, kind="stable")
    needed = order[: int(np.searchsorted(np.cumsum(probabilities[order]), top_p)) + 1]
    sampler = Sampler(Sampling(temperature=1.0, top_p=top_p, seed=3))
    assert {sampler.choose(logits) for _ in range(3000)} <= set(needed.tolist())
    likeliest = Sampler(Sampling(temperature=1.0, top_p=float(probabilities.max()) / 2, seed=3))
    assert likeliest.choose(logits) == order[0]


def test_equal_seeds_give_equal_tokens_whatever_other_answers_do() -> None:
    logits = noise()
    one, two, other = (Sampler(Sampling(temperature=1.0, seed=seed)) for seed in (5, 5, 6))
    first = [one.choose(logits) for _ in range(20)]
    second = [(two.choose(logits), other.choose(logits))[0] for _ in range(20)]
    assert first == second
    assert first != [other.choose(logits) for _ in range(20)]


def test_without_a_seed_two_answers_differ() -> None:
    logits = np.zeros(10_000, np.float32)
    one, two = Sampler(Sampling(temperature=1.0)), Sampler(Sampling(temperature=1.0))
    assert [one.choose(logits) for _ in range(5)] != [two.choose(logits) for _ in range(5)]


@pytest.mark.parametrize("temperature", [0.0, 1.0])
@pytest.mark.parametrize("top_p", [0.9, 1.0])
def test_a_constraint_goes_first_and_is_told_the_choice(temperature: float, top_p: float) -> None:
    rule = OnlyThese(4, 1, 2)
    sampler = Sampler(Sampling(temperature=temperature, top_p=top_p, seed=1), rule)
    chosen = [sampler.choose(row(9, 1, 2, 9)) for _ in range(50)]
    assert set(chosen) <= {1, 2}
    assert rule.told == chosen


@pytest.mark.parametrize("sampling", [Sampling(), Sampling(temperature=0.8, top_p=0.9, seed=1)])
def test_logits_are_not_touched(sampling: Sampling) -> None:
    logits = noise()
    before = logits.copy()
    logits.setflags(write=False)
    Sampler(sampling, OnlyThese(1000, 5, 6)).choose(logits)
    assert np.array_equal(logits, before)


@pytest.mark.parametrize("bad", [[1, np.nan, 3], [np.nan] * 3, [-np.inf] * 3, [1, np.inf, 2]])
@pytest.mark.parametrize("temperature", [0.0, 1.0])
def test_logits_that_are_no_numbers_are_an_engine_failure(bad: list[float], temperature: float) -> None:
    with pytest.raises(StageError) as raised:
        Sampler(Sampling(temperature=temperature)).choose(row(*bad))
    assert (raised.value.code, raised.value.retryable) == (ErrorCode.ENGINE_FAILED, True)
    with pytest.raises(StageError):
        log_softmax(row(*bad))


def test_a_constraint_that_leaves_nothing_is_an_engine_failure() -> None:
    with pytest.raises(StageError):
        Sampler(Sampling(), OnlyThese(3)).choose(row(1, 2, 3))
    with pytest.raises(StageError):
        Sampler(Sampling(), OnlyThese(3, 0)).choose(row(-np.inf, 2, 3))


@pytest.mark.parametrize("sampling", [{"temperature": -1.0}, {"temperature": np.nan}, {"top_p": 0.0}, {"top_p": 1.5}])
def test_settings_that_mean_nothing_are_refused(sampling: dict[str, float]) -> None:
    with pytest.raises(ValueError, match="temperature must be"):
        Sampler(Sampling(**sampling))  # type: ignore[arg-type]


def test_log_probabilities_sum_to_one_and_keep_their_order() -> None:
    logits = noise(49_152)
    found = log_softmax(logits)
    assert np.exp(found).sum() == pytest.approx(1, abs=1e-12)
    assert np.array_equal(np.argsort(found, kind="stable"), np.argsort(logits, kind="stable"))


def test_log_probabilities_of_huge_logits_do_not_overflow() -> None:
    assert log_softmax(row(1e30, 1e30, -np.inf)) == pytest.approx([-np.log(2), -np.log(2), -np.inf])
