"""The store against a plain model of it."""

from collections import OrderedDict

from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from llm_engine.admission.result_store import ENTRY_BYTES, ResultStore

KEYS = st.sampled_from("abcdefgh")


class StoreMachine(RuleBasedStateMachine):
    @initialize(max_entries=st.integers(1, 6), max_bytes=st.integers(0, 2000))
    def open(self, max_entries: int, max_bytes: int) -> None:
        self.store = ResultStore[int](max_entries=max_entries, max_bytes=max_bytes)
        self.max_entries, self.max_bytes = max_entries, max_bytes
        self.model: OrderedDict[str, tuple[int, int]] = OrderedDict()

    @rule(key=KEYS, value=st.integers(), size=st.integers(0, 900))
    def put(self, key: str, value: int, size: int) -> None:
        self.store.put(key, value, value_bytes=size)
        self.model.pop(key, None)
        if size + ENTRY_BYTES <= self.max_bytes:
            self.model[key] = (value, size + ENTRY_BYTES)
        while len(self.model) > self.max_entries or self.model_bytes() > self.max_bytes:
            self.model.popitem(last=False)

    @rule(key=KEYS)
    def get(self, key: str) -> None:
        expected = self.model.get(key)
        assert self.store.get(key) == (None if expected is None else expected[0])
        if expected is not None:
            self.model.move_to_end(key)

    @invariant()
    def it_is_as_large_as_it_says_and_never_too_large(self) -> None:
        if hasattr(self, "store"):
            assert len(self.store) == len(self.model) <= self.max_entries
            assert self.store.used_bytes == self.model_bytes() <= self.max_bytes

    def model_bytes(self) -> int:
        return sum(size for _, size in self.model.values())


TestStore = StoreMachine.TestCase
