"""No model works twice for one question, and nobody gets another question's answer."""

import asyncio
from contextlib import aclosing

import pytest

from llm_engine.admission.result_cache import ResultCache, StoreLimits
from llm_engine.admission.result_key import MAX_LABEL_SETS, ResultKeys
from llm_engine.admission.result_store import ENTRY_BYTES, ResultStore
from llm_engine.base import Chat, LabelSet, LLMRequest, Message, PriorityClass, Prompt, Sampling
from schemas.deadline import Deadline
from schemas.errors import DeadlineExceeded, ErrorCode, Overloaded, StageError
from tests.unit.scripted_engine import LABELS, TEXT, ScriptedEngine, asking, last, never, outputs, within
from tests.unit.virtual_time import in_virtual_time, now_s

MEAL = Prompt("meals", "Which meal?", "We had soup.")
FREE = Sampling(temperature=0.7)


class Shop:
    """An engine behind a cache."""

    def __init__(self, *, max_entries: int = 100, max_bytes: int = 100_000) -> None:
        self.engine = ScriptedEngine()
        limits = StoreLimits(max_entries=max_entries, max_bytes=max_bytes)
        self.cache = ResultCache(self.engine, keys=ResultKeys("prompts 1", "schema 1"), limits=limits)

    def start(self, request_id: str, **kwargs) -> asyncio.Task:
        return asyncio.create_task(outputs(self.cache, asking(request_id=request_id, **kwargs)))

    @property
    def hits(self) -> tuple[int, int]:
        stats = self.cache.stats()
        return stats.cache_hits, stats.cache_misses


@in_virtual_time
async def test_the_second_to_ask_is_answered_at_once():
    shop = Shop()
    first = await last(shop.cache, asking(request_id="a"))
    asked_s = now_s()
    (second,) = await outputs(shop.cache, asking(request_id="b"))
    assert (first.request_id, second.request_id) == ("a", "b")
    assert (second.text, second.finish_reason) == (first.text, "stop") == (TEXT, "stop")
    assert now_s() == asked_s
    assert shop.hits == (1, 1)
    assert shop.cache.stats().requests == 2
    assert len(shop.engine.requests) == 1


@in_virtual_time
async def test_scores_are_kept_too():
    shop = Shop()
    first = await shop.cache.score(MEAL, LABELS, deadline=never())
    assert await shop.cache.score(MEAL, LABELS, deadline=never()) == first
    assert shop.engine.scored == 1
    assert shop.hits == (1, 1)
    assert shop.cache.stats().scored == 2


@in_virtual_time
async def test_free_sampling_is_never_kept_but_seeded_is():
    shop = Shop()
    for sampling in (FREE, FREE, Sampling(temperature=0.7, seed=1), Sampling(temperature=0.7, seed=1)):
        await last(shop.cache, asking(sampling=sampling))
    assert len(shop.engine.requests) == 3


@in_virtual_time
async def test_what_was_cut_short_is_not_kept():
    shop = Shop()
    reader = shop.start("a")
    await asyncio.sleep(0.025)
    await shop.cache.abort("a")
    assert (await reader)[-1].finish_reason == "abort"
    late = await last(shop.cache, asking(deadline=within(0.025)))
    assert (late.text, late.finish_reason) == ("one", "deadline")
    assert (await last(shop.cache, asking())).text == TEXT
    assert len(shop.engine.requests) == 3


@in_virtual_time
async def test_failures_are_not_kept():
    shop = Shop()
    shop.engine.fails_after = 1
    with pytest.raises(StageError):
        await last(shop.cache, asking())
    with pytest.raises(StageError):
        await shop.cache.score(MEAL, LABELS, deadline=never())
    shop.engine.fails_after = None
    assert (await last(shop.cache, asking())).text == TEXT
    await shop.cache.score(MEAL, LABELS, deadline=never())


@in_virtual_time
async def test_those_who_ask_together_share_one_computation():
    shop = Shop()
    readers = [shop.start(str(i)) for i in range(5)]
    streams = await asyncio.gather(*readers)
    assert len(shop.engine.requests) == 1
    assert [[output.text for output in stream] for stream in streams] == [
        ["", "one", "one two", "one two three", TEXT]
    ] * 5
    assert [{output.request_id for output in stream} for stream in streams] == [{str(i)} for i in range(5)]
    assert shop.hits == (4, 1)


@in_virtual_time
async def test_scores_asked_together_share_one_computation():
    shop = Shop()
    await asyncio.gather(*(shop.cache.score(MEAL, LABELS, deadline=never()) for _ in range(5)))
    assert shop.engine.scored == 1
    assert shop.hits == (4, 1)


@in_virtual_time
async def test_a_follower_leaves_at_its_own_deadline():
    shop = Shop()
    leader, follower = shop.start("leader"), shop.start("follower", deadline=within(0.025))
    final = (await follower)[-1]
    assert (final.text, final.finish_reason) == ("one", "deadline")
    assert now_s() == pytest.approx(0.025)
    assert (await leader)[-1].text == TEXT


@in_virtual_time
async def test_a_score_follower_leaves_at_its_own_deadline():
    shop = Shop()
    leader = asyncio.create_task(shop.cache.score(MEAL, LABELS, deadline=never()))
    await asyncio.sleep(0)
    with pytest.raises(DeadlineExceeded):
        await shop.cache.score(MEAL, LABELS, deadline=within(0.005))
    assert len(await leader) == 2


@pytest.mark.parametrize("leaves", ["cancelled", "aborted"])
@in_virtual_time
async def test_when_the_leader_leaves_the_others_get_everything_without_a_restart(leaves):
    shop = Shop()
    leader, follower = shop.start("leader"), shop.start("follower")
    await asyncio.sleep(0.025)
    if leaves == "cancelled":
        leader.cancel()
        with pytest.raises(asyncio.CancelledError):
            await leader
    else:
        await shop.cache.abort("leader")
        assert [output.finish_reason for output in await leader] == [None, None, "abort"]
    assert (await follower)[-1].text == TEXT
    assert len(shop.engine.requests) == 1


@in_virtual_time
async def test_when_all_have_left_the_engine_is_stopped():
    shop = Shop()
    readers = [shop.start("a"), shop.start("b")]
    await asyncio.sleep(0.025)
    for reader in readers:
        reader.cancel()
    await asyncio.gather(*readers, return_exceptions=True)
    await asyncio.sleep(0)
    assert shop.engine.running == 0


@in_virtual_time
async def test_an_abort_stops_the_engine_though_nobody_reads_the_stream():
    shop = Shop()
    async with aclosing(shop.cache.generate(asking())) as stream:
        await anext(stream)
        await shop.cache.abort("r")
        await asyncio.sleep(0)
        assert shop.engine.running == 0
        assert (await anext(stream)).finish_reason == "abort"


@in_virtual_time
async def test_aborts_of_what_is_not_shared_reach_the_engine():
    shop = Shop()
    reader = shop.start("a", sampling=FREE)
    await asyncio.sleep(0.025)
    await shop.cache.abort("a")
    assert (await reader)[-1].finish_reason == "abort"
    assert shop.engine.aborted == ["a"]


class Punctual(ScriptedEngine):
    """Ends texts at their deadline, as engines do."""

    async def generate(self, request):
        async for output in super().generate(request):
            late = request.deadline.expired and output.finish_reason is None
            yield type(output)(output.request_id, output.text, "deadline" if late else output.finish_reason)
            if late:
                return


@in_virtual_time
async def test_a_follower_with_more_time_takes_over_from_a_leader_who_ran_out_of_it():
    shop = Shop()
    shop.cache = ResultCache(engine := Punctual(), keys=ResultKeys(), limits=StoreLimits(max_entries=9, max_bytes=9999))
    leader = shop.start("leader", deadline=within(0.03))
    follower = shop.start("follower", deadline=within(1))
    third = shop.start("third")
    assert (await leader)[-1].finish_reason == "deadline"
    texts = [output.text for output in await follower]
    assert texts == sorted(texts, key=len), "nothing is taken back"
    assert texts[-1] == (await third)[-1].text == TEXT
    assert len(engine.requests) == 2, "one took over, the other followed it"
    assert engine.requests[1].deadline.at_s == 1
    stats = shop.cache.stats()
    assert (stats.requests, stats.cache_hits, stats.cache_misses) == (3, 1, 2)


@in_virtual_time
async def test_the_leaders_rejection_is_not_the_followers():
    class Busy(ScriptedEngine):
        async def generate(self, request):
            await asyncio.sleep(0.01)
            if request.deadline.remaining() < 0.5:
                raise Overloaded("scripted", retry_after_s=1)
            async for output in super().generate(request):
                yield output

        async def score(self, prompt, labels, *, deadline, priority=PriorityClass.REALTIME):
            await asyncio.sleep(0.01)
            if deadline.remaining() < 0.5:
                raise DeadlineExceeded
            return await super().score(prompt, labels, deadline=deadline, priority=priority)

    cache = ResultCache(Busy(), keys=ResultKeys(), limits=StoreLimits(max_entries=9, max_bytes=9999))
    hurried, patient, score, patient_score = await asyncio.gather(
        last(cache, asking(request_id="a", deadline=within(0.3))),
        last(cache, asking(request_id="b", deadline=within(1))),
        cache.score(MEAL, LABELS, deadline=within(0.3)),
        cache.score(MEAL, LABELS, deadline=within(1)),
        return_exceptions=True,
    )
    assert isinstance(hurried, Overloaded)
    assert patient.text == TEXT
    assert isinstance(score, DeadlineExceeded)
    assert len(patient_score) == 2


@in_virtual_time
async def test_a_real_failure_is_everybodys():
    shop = Shop()
    shop.engine.fails_after = 2
    outcomes = await asyncio.gather(shop.start("a"), shop.start("b"), return_exceptions=True)
    assert [outcome.code for outcome in outcomes] == [ErrorCode.ENGINE_FAILED] * 2
    assert len(shop.engine.requests) == 1


@in_virtual_time
async def test_realtime_does_not_ride_with_backfill_but_backfill_with_realtime():
    shop = Shop()
    readers = [
        shop.start("slow", priority=PriorityClass.BACKFILL),
        shop.start("fast"),
        shop.start("late", priority=PriorityClass.BACKFILL),
    ]
    await asyncio.gather(*readers)
    assert [request.priority for request in shop.engine.requests] == [PriorityClass.BACKFILL, PriorityClass.REALTIME]


@in_virtual_time
async def test_a_passed_deadline_is_the_engines_to_answer():
    shop = Shop()
    await last(shop.cache, asking())
    await last(shop.cache, asking(deadline=within(0)))
    assert len(shop.engine.requests) == 2


@in_virtual_time
async def test_closing_ends_what_runs():
    shop = Shop()
    reader = shop.start("a")
    score = asyncio.create_task(shop.cache.score(MEAL, LABELS, deadline=never()))
    await asyncio.sleep(0.005)
    await shop.cache.close()
    assert (await reader)[-1].finish_reason == "abort"
    with pytest.raises(StageError, match="ENGINE_FAILED"):
        await score
    assert (shop.engine.running, shop.engine.closed) == (0, 1)


def test_the_least_recently_used_goes_first():
    store = ResultStore[str](max_entries=2, max_bytes=10_000)
    for key in ("a", "b"):
        store.put(key, key, value_bytes=1)
    assert store.get("a") == "a"
    store.put("c", "c", value_bytes=1)
    assert [store.get(key) for key in "abc"] == ["a", None, "c"]


def test_bytes_are_bounded_and_giants_not_kept():
    store = ResultStore[str](max_entries=100, max_bytes=2 * (ENTRY_BYTES + 100))
    for key in "abc":
        store.put(key, key, value_bytes=100)
    assert len(store) == 2
    store.put("c", "giant", value_bytes=10_000)
    assert store.get("c") is None
    assert store.used_bytes == ENTRY_BYTES + 100


def text_key(keys: ResultKeys, *, model: str = "m", **changes) -> str:
    fields = {"prompt": MEAL, "sampling": Sampling(), "schema": None} | changes
    return keys.of_text(LLMRequest("r", deadline=Deadline.never(), **fields), model=model)


@pytest.mark.parametrize(
    "changes",
    [
        {"model": "other"},
        {"prompt": Prompt("meals", "Which meal?", "We had soup!")},
        {"prompt": Prompt("other", "Which meal?", "We had soup.")},
        {"prompt": Prompt("meals", "Which meal?We", " had soup.")},
        {"prompt": Prompt("meals", "Which meal?", "We had soup.", "en")},
        {"prompt": Chat((Message("user", "We had soup."),))},
        {"sampling": Sampling(max_tokens=1)},
        {"sampling": Sampling(seed=1)},
        {"schema": {"type": "object"}},
    ],
)
def test_whatever_the_answer_depends_on_is_in_the_key(changes):
    keys = ResultKeys("1")
    assert text_key(keys) == text_key(keys)
    assert text_key(keys, **changes) != text_key(keys)


def test_new_prompts_and_schemas_have_new_keys():
    assert text_key(ResultKeys("prompts 1", "schema 1")) != text_key(ResultKeys("prompts 1", "schema 2"))


def test_the_order_of_fields_is_part_of_a_schema():
    keys = ResultKeys()
    assert text_key(keys, schema={"a": 1, "b": 2}) != text_key(keys, schema={"b": 2, "a": 1})


def test_who_asked_and_until_when_is_not_in_the_key():
    keys = ResultKeys()
    other = LLMRequest("other", MEAL, Deadline(1), PriorityClass.BACKFILL, arrival_s=7)
    assert keys.of_text(other, model="m") == text_key(keys)


def test_label_sets_differ_by_their_phrases_too():
    keys = ResultKeys()
    other = LabelSet("meals", {"soup": ("hot soup",), "cake": ("dry cake",)})
    assert keys.of_score(MEAL, LABELS, model="m") != keys.of_score(MEAL, other, model="m")
    equal = LabelSet("meals", {"soup": ("hot soup",), "cake": ("sweet cake",)})
    assert keys.of_score(MEAL, LABELS, model="m") == keys.of_score(MEAL, equal, model="m")


def test_forgotten_label_sets_keep_their_keys():
    keys = ResultKeys()
    before = keys.of_score(MEAL, LABELS, model="m")
    for number in range(MAX_LABEL_SETS + 1):
        keys.of_score(MEAL, LabelSet(f"set {number}", {}), model="m")
    assert keys.of_score(MEAL, LABELS, model="m") == before
