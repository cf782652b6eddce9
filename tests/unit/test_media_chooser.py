from hypothesis import given
from hypothesis import strategies as st

from stages.media.chooser import Candidate, Chooser

# Quarters are exact, and never lie half-way between whole numbers: every picture has one nearest time.
TIMES = st.lists(st.integers(0, 60), min_size=1, max_size=8, unique=True).map(
    lambda times: [float(t) for t in sorted(times)]
)
SHOWN = st.lists(st.tuples(st.integers(0, 60), st.booleans()), max_size=40, unique_by=lambda pair: pair[0]).map(
    lambda pairs: [Candidate(t + 0.25, clean, t) for t, clean in sorted(pairs)]
)


def choose(wanted: list[float], shown: list[Candidate[int]]) -> list[Candidate[int]]:
    chooser = Chooser[int](wanted)
    chosen = [choice for candidate in shown for choice in chooser.offer(candidate)]
    return chosen + chooser.finish()


def clean(*times_s: float) -> list[Candidate[int]]:
    return [Candidate(time_s, True, round(time_s * 10)) for time_s in times_s]


def test_the_nearest_picture_is_chosen() -> None:
    assert [c.t_s for c in choose([1.0, 2.0], clean(0.0, 0.9, 1.3, 1.8, 2.1, 2.2))] == [0.9, 2.1]


def test_a_choice_is_settled_as_soon_as_nothing_can_improve_it() -> None:
    chooser = Chooser[int]([1.0, 2.0])
    first, second = clean(0.9, 1.2)
    assert chooser.offer(first) == []
    assert chooser.offer(second) == [first]
    assert chooser.wanted_s == 2.0


def test_a_clean_picture_goes_before_a_nearer_damaged_one() -> None:
    shown = [Candidate(0.6, True, 6), Candidate(1.0, False, 10), Candidate(1.6, True, 16)]
    assert [c.t_s for c in choose([1.0], shown)] == [0.6]


def test_a_damaged_picture_is_better_than_none() -> None:
    shown = [Candidate(1.0, False, 10), Candidate(1.9, True, 19)]
    assert [c.t_s for c in choose([1.0, 2.0], shown)] == [1.0, 1.9]


def test_a_time_that_no_picture_is_nearest_to_gets_none() -> None:
    assert [c.t_s for c in choose([1.0, 2.0, 9.0], clean(1.0, 8.5))] == [1.0, 8.5]
    assert choose([1.0], []) == []


@given(wanted=TIMES, shown=SHOWN)
def test_choices_are_distinct_ascending_and_each_nearest_to_its_own_time(
    wanted: list[float], shown: list[Candidate[int]]
) -> None:
    chosen = choose(wanted, shown)
    assert [c.t_s for c in chosen] == sorted({c.t_s for c in chosen})
    owners = [min(range(len(wanted)), key=lambda i: (abs(wanted[i] - c.t_s), i)) for c in chosen]
    assert owners == sorted(set(owners))
    assert bool(chosen) == bool(shown)


@given(wanted=TIMES, shown=SHOWN)
def test_every_choice_is_the_best_of_those_nearest_to_its_time(
    wanted: list[float], shown: list[Candidate[int]]
) -> None:
    def owner(candidate: Candidate[int]) -> int:
        return min(range(len(wanted)), key=lambda i: (abs(wanted[i] - candidate.t_s), i))

    for choice in choose(wanted, shown):
        rivals = [c for c in shown if owner(c) == owner(choice)]
        assert choice.clean == any(c.clean for c in rivals)
        target = wanted[owner(choice)]
        peers = [abs(c.t_s - target) for c in rivals if c.clean == choice.clean]
        assert abs(choice.t_s - target) == min(peers)
