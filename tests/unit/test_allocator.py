"""The allocator is asked to be modest where it can be, and nowhere else."""

import ctypes

import pytest

from pipeline import allocator


class Library:
    def __init__(self) -> None:
        self.asked: list[tuple[str, tuple[int, ...]]] = []

    def mallopt(self, *numbers: int) -> None:
        self.asked.append(("mallopt", numbers))

    def malloc_trim(self, *numbers: int) -> None:
        self.asked.append(("malloc_trim", numbers))


def test_glibc_shares_arenas_and_gives_back(monkeypatch: pytest.MonkeyPatch) -> None:
    library = Library()
    monkeypatch.setattr(ctypes, "CDLL", lambda name: library)
    allocator.use_few_arenas()
    allocator.give_back()
    assert library.asked == [("mallopt", (-8, allocator.ARENAS)), ("malloc_trim", (0,))]


def test_another_c_library_is_left_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ctypes, "CDLL", lambda name: object())
    allocator.use_few_arenas()
    allocator.give_back()
