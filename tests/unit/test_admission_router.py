"""Every question goes to the engine that the table names."""

import asyncio

import pytest

from llm_engine.admission.router import Router, RouteTable, choose
from llm_engine.base import Chat, LabelSet, Message, Prompt
from schemas.errors import ConfigurationError
from tests.unit.scripted_engine import LABELS, ScriptedEngine, asking, last, never, outputs
from tests.unit.virtual_time import in_virtual_time

TABLE = RouteTable(
    scoring="embedding",
    light="light",
    heavy="heavy",
    heavy_from_tokens=300,
    label_sets={"mood": "light"},
    tasks={"insights": "heavy", "quote": "embedding"},
)
MOODS = LabelSet("mood", {"glad": ("I am glad.",), "sad": ("I am sad.",)})


@pytest.mark.parametrize(
    ("question", "max_tokens", "engine"),
    [
        (LABELS, 0, "embedding"),
        (MOODS, 0, "light"),
        (Prompt("insights", "", "short"), 1, "heavy"),
        (Prompt("quote", "", "long " * 1000), 1, "embedding"),
        (Prompt("summary", "", "short"), 64, "light"),
        (Prompt("summary", "", "short"), 300, "heavy"),
        (Prompt("summary", "", "long " * 1000), 64, "heavy"),
        (Chat((Message("user", "Hello?"),)), 64, "light"),
        (Chat((Message("user", "long " * 1000),)), 64, "heavy"),
    ],
)
def test_the_table_decides(question, max_tokens, engine):
    assert choose(question, TABLE, max_tokens=max_tokens) == engine


def engines() -> dict[str, ScriptedEngine]:
    return {name: ScriptedEngine(f"said by {name}", model=name) for name in ("embedding", "light", "heavy")}


@in_virtual_time
async def test_texts_and_decisions_go_where_the_table_says():
    router = Router(parts := engines(), TABLE)
    assert (await last(router, asking())).text == "said by light"
    assert (await last(router, asking("long " * 1000))).text == "said by heavy"
    await router.score(asking().prompt, MOODS, deadline=never())
    await router.score(asking().prompt, LABELS, deadline=never())
    assert [part.scored for part in parts.values()] == [1, 1, 0]
    await router.prefetch(asking().prompt, deadline=never())
    assert len(parts["light"].prefetched) == 1


@in_virtual_time
async def test_an_abort_reaches_the_engine_that_has_the_request_alone():
    router = Router(parts := engines(), TABLE)
    reader = asyncio.create_task(outputs(router, asking()))
    await asyncio.sleep(0.015)
    await router.abort("r")
    await router.abort("unknown")
    assert (await reader)[-1].finish_reason == "abort"
    assert [part.aborted for part in parts.values()] == [[], ["r"], []]


@in_virtual_time
async def test_every_engine_is_warmed_with_what_it_decides():
    router = Router(parts := engines(), TABLE)
    await router.warm(LABELS, MOODS)
    assert [part.warmed for part in parts.values()] == [[("meals",)], [("mood",)], [()]]


@in_virtual_time
async def test_a_router_is_as_well_as_its_sickest_engine():
    router = Router(parts := engines(), TABLE)
    assert await router.health()
    parts["heavy"].healthy = False
    assert not await router.health()


@in_virtual_time
async def test_all_engines_count_rest_and_close():
    router = Router(parts := engines(), TABLE)
    await asyncio.gather(last(router, asking()), last(router, asking("long " * 1000)))
    assert router.stats().requests == 2
    assert router.model == "embedding + light + heavy"
    await router.trim()
    assert [part.trims for part in parts.values()] == [1, 1, 1]

    async def fail() -> None:
        raise OSError("no answer")

    parts["embedding"].close = fail
    with pytest.raises(OSError, match="no answer"):
        await router.close()
    assert [part.closed for part in parts.values()] == [0, 1, 1]


def test_a_table_that_names_an_engine_which_is_not_there_is_refused():
    with pytest.raises(ConfigurationError, match="heavy"):
        Router({"embedding": ScriptedEngine(), "light": ScriptedEngine()}, TABLE)
