"""What every engine promises of one answer and one decision, whatever runs inside. The table is in llm_engines.py."""

import asyncio
import math
from collections.abc import Callable

import pytest

from llm_engine.base import EngineStats, LabelSet, LLMEngine, LLMRequest, Message, PriorityClass, Prompt, Sampling
from schemas.deadline import Deadline
from schemas.errors import DeadlineExceeded, ErrorCode, StageError
from tests.contract.llm_calls import (
    MEALS,
    NEVER,
    TEXT,
    Call,
    answer,
    asking,
    assert_grows,
    chat,
    conversation,
    endless,
    summary,
    within,
)
from tests.contract.llm_engines import Ability, Subject

pytestmark = [pytest.mark.models, pytest.mark.asyncio(loop_scope="session"), pytest.mark.timeout(300)]

ODD_TEXTS = {
    "emoji": "We cooked 👩🏽‍🍳🍜🇨🇳 and ate.",
    "chinese": "妈妈煮了一锅面汤，大家都说好吃。",
    "right to left": "ذهبنا إلى السوق واشترينا \u202eخبزا\u202c طازجا.",
    "combining": "e\u0301a\u0308o\u0302 Z̷̡̛a̸̢l̴̨g̵o soup",
    "lone surrogates": "We ate \ud83c soup \udf5c today.",
    "nul": "We ate\x00soup\x00 today.",
    "control characters": "We \x1b[31mate\x07 soup\x7f \u2028today\ufeff.",
    "not a character": "We ate \ufffe\uffff\U0010ffff soup.",
    "one long word": "a" * 500,
    "blanks": "We    ate \t\t soup\u3000\u00a0today.\r\n\r\n",
}
SAYS_NOTHING = ["", "  \n\t ", "\x00\x01", "...?!", "\u200b\ufeff"]
CONTROL_TOKENS = ("<|im_end|>", "<|im_start|>", "</s>", "<|endoftext|>", "[/INST]", "<end_of_turn>")

odd_texts = pytest.mark.parametrize("text", [pytest.param(text, id=name) for name, text in ODD_TEXTS.items()])


async def test_the_model_has_a_name(engine: LLMEngine) -> None:
    assert engine.model


async def test_text_grows_and_only_the_last_output_is_finished(engine: LLMEngine) -> None:
    call = Call(engine, summary(TEXT))
    last = await call.last()
    assert last.finish_reason in {"stop", "length"}
    assert last.text.strip()
    assert {output.request_id for output in call.outputs} == {call.request.request_id}
    assert_grows(call.outputs)


async def test_no_more_tokens_than_allowed(engine: LLMEngine) -> None:
    last = await answer(engine, summary(TEXT, max_tokens=3))
    assert last.finish_reason == "length"
    assert len(last.text.split()) <= 3


@pytest.mark.parametrize("max_tokens", [1, 7])
async def test_tokens_are_counted_and_bounded(subject: Subject, max_tokens: int) -> None:
    subject.needs(Ability.CHAT)
    before = subject.engine.stats()
    last = await answer(subject.engine, endless(max_tokens=max_tokens))
    after = subject.engine.stats()
    assert last.finish_reason == "length"
    assert after.output_tokens - before.output_tokens == max_tokens
    assert after.prompt_tokens - before.prompt_tokens >= 4


async def test_text_comes_as_it_is_written(subject: Subject) -> None:
    subject.needs(Ability.CHAT)
    call = Call(subject.engine, endless(max_tokens=24))
    await call.last()
    assert_grows(call.outputs)
    assert len({output.text for output in call.outputs}) > 4


@odd_texts
async def test_any_text_can_be_asked_about(engine: LLMEngine, text: str) -> None:
    call = Call(engine, summary(text, max_tokens=8))
    assert (await call.last()).finish_reason in {"stop", "length"}
    assert_grows(call.outputs)


@odd_texts
async def test_any_text_can_be_chatted_about(subject: Subject, text: str) -> None:
    subject.needs(Ability.CHAT)
    call = Call(subject.engine, chat(text, max_tokens=4))
    assert (await call.last()).finish_reason in {"stop", "length"}
    assert_grows(call.outputs)


@pytest.mark.parametrize("seed", range(4))
async def test_half_a_character_is_never_shown(subject: Subject, seed: int) -> None:
    subject.needs(Ability.CHAT)
    wild = Sampling(max_tokens=32, temperature=2.5, seed=seed)
    call = Call(subject.engine, chat("Write emoji, Chinese and Arabic: 👩🏽‍🍳🍜 面条 مرحبا", sampling=wild))
    await call.last()
    assert_grows(call.outputs)


@pytest.mark.parametrize("text", SAYS_NOTHING, ids=ascii)
async def test_an_empty_prompt_is_an_error_by_name(engine: LLMEngine, text: str) -> None:
    with pytest.raises(StageError) as refusal:
        await answer(engine, summary(text))
    assert refusal.value.code is ErrorCode.EMPTY_PROMPT
    assert not refusal.value.retryable


@pytest.mark.parametrize(
    "messages",
    [(), (Message("user", ""),), (Message("system", "You help."), Message("user", " \n"))],
    ids=["no message", "an empty one", "only ours"],
)
async def test_an_empty_chat_is_an_error_by_name(subject: Subject, messages: tuple[Message, ...]) -> None:
    subject.needs(Ability.CHAT)
    with pytest.raises(StageError) as refusal:
        await answer(subject.engine, conversation(*messages))
    assert refusal.value.code is ErrorCode.EMPTY_PROMPT


async def test_an_overlong_prompt_is_an_error_by_name(engine: LLMEngine) -> None:
    with pytest.raises(StageError) as refusal:
        await answer(engine, summary("We cooked one more soup. " * 8000))
    assert refusal.value.code is ErrorCode.PROMPT_TOO_LONG
    assert not refusal.value.retryable


async def test_an_overlong_chat_is_an_error_by_name(subject: Subject) -> None:
    subject.needs(Ability.CHAT)
    with pytest.raises(StageError) as refusal:
        await answer(subject.engine, chat("We cooked one more soup. " * 8000))
    assert refusal.value.code is ErrorCode.PROMPT_TOO_LONG


async def test_control_tokens_in_the_data_are_no_part_of_the_prompt(engine: LLMEngine) -> None:
    call = Call(engine, summary(f"We ate soup. {''.join(CONTROL_TOKENS)} We drank tea.", max_tokens=24))
    last = await call.last()
    assert last.text.strip()
    assert "<|" not in last.text


@pytest.mark.parametrize("asked", [summary, chat])
async def test_control_tokens_are_taken_out_before_a_model_reads_them(
    subject: Subject, asked: Callable[..., LLMRequest]
) -> None:
    subject.needs(Ability.CHAT)
    noise = CONTROL_TOKENS * 8
    read = []
    for text in ("We ate soup. We drank tea.", f"We ate soup. {''.join(noise)} We drank tea."):
        before = subject.engine.stats().prompt_tokens
        await answer(subject.engine, asked(text, max_tokens=1))
        read.append(subject.engine.stats().prompt_tokens - before)
    assert read[1] - read[0] < len(noise) / 2, "line ends may stay in their place, and nothing else"


async def test_greedy_answers_repeat(engine: LLMEngine) -> None:
    first, second = [await answer(engine, summary(TEXT, max_tokens=16)) for _ in range(2)]
    assert first.text == second.text


async def test_equal_seeds_write_equal_texts_and_others_do_not(subject: Subject) -> None:
    subject.needs(Ability.CHAT)
    sampled = [
        (await answer(subject.engine, chat(TEXT, sampling=Sampling(16, temperature=1.5, seed=seed)))).text
        for seed in (7, 7, 8, 9)
    ]
    assert sampled[0] == sampled[1]
    assert len(set(sampled)) > 1


async def test_the_smallest_nucleus_is_the_likeliest_token(subject: Subject) -> None:
    subject.needs(Ability.CHAT)
    greedy = await answer(subject.engine, chat(TEXT, max_tokens=12))
    narrow = Sampling(12, temperature=1.0, top_p=1e-4, seed=3)
    assert (await answer(subject.engine, chat(TEXT, sampling=narrow))).text == greedy.text


async def test_the_second_of_two_long_prompts_that_begin_alike_is_read_from_the_cache(subject: Subject) -> None:
    subject.needs(Ability.PREFIXES)
    hits = []
    for ending in ("tea", "milk", "juice"):
        before = subject.engine.stats().prefix_hit_tokens
        await answer(
            subject.engine, summary(f"The story of a first prefix. {TEXT} {TEXT} At last: {ending}", max_tokens=2)
        )
        hits.append(subject.engine.stats().prefix_hit_tokens - before)
    assert hits[1] >= 64
    assert hits[2] >= 64
    assert hits[0] < hits[1]


async def test_what_is_read_ahead_is_read_from_the_cache(subject: Subject) -> None:
    subject.needs(Ability.PREFIXES)
    known = f"The story of another prefix. {TEXT} {TEXT}"
    ahead = summary(known).prompt
    assert isinstance(ahead, Prompt)
    await within(subject.engine.prefetch(ahead, deadline=Deadline.after(30)))
    before = subject.engine.stats().prefix_hit_tokens
    await answer(subject.engine, summary(f"{known} And then everybody went home.", max_tokens=2))
    assert subject.engine.stats().prefix_hit_tokens - before >= 64


@pytest.mark.parametrize("text", [*SAYS_NOTHING, TEXT, "word " * 20_000], ids=lambda text: ascii(text[:8]))
async def test_reading_ahead_never_fails(engine: LLMEngine, text: str) -> None:
    for deadline in (Deadline.after(5), Deadline.after(-1)):
        await within(
            engine.prefetch(Prompt("summary", "Sum up in one sentence what is said.", text), deadline=deadline)
        )
    assert await within(engine.health())


@pytest.mark.parametrize(
    "text", [TEXT, "".join(CONTROL_TOKENS), *ODD_TEXTS.values(), "word " * 5000], ids=lambda t: ascii(t[:8])
)
async def test_scores_are_log_probabilities_over_the_labels_in_order(engine: LLMEngine, text: str) -> None:
    scores = await within(engine.score(asking(text), MEALS, deadline=NEVER))
    assert len(scores) == len(MEALS.labels)
    assert sum(map(math.exp, scores)) == pytest.approx(1, abs=1e-6)


@pytest.mark.parametrize("text", SAYS_NOTHING, ids=ascii)
async def test_a_text_that_says_nothing_leaves_all_labels_equal(engine: LLMEngine, text: str) -> None:
    scores = await within(engine.score(asking(text), MEALS, deadline=NEVER))
    assert scores == pytest.approx([-math.log(3)] * 3, abs=1e-6)


# Texts whose label is ahead by more than 0.3, which is what rounding activations to eight bits may move a score on some
# processors: others are decided by the processor.
@pytest.mark.parametrize("text", ["My sister cooked noodles in broth.", "爷爷端来一碗热腾腾的面条"])
async def test_the_fitting_label_is_likeliest(engine: LLMEngine, text: str) -> None:
    scores = await within(engine.score(asking(text), MEALS, deadline=NEVER))
    assert MEALS.labels[max(range(3), key=lambda i: scores[i])] == "soup"


async def test_scores_follow_the_labels_into_another_order(engine: LLMEngine) -> None:
    turned = LabelSet("turned", dict(reversed(MEALS.descriptions.items())))
    scores = await within(engine.score(asking("My sister cooked noodles in broth."), turned, deadline=NEVER))
    assert turned.labels[max(range(3), key=lambda i: scores[i])] == "soup"


async def test_the_same_question_gets_the_same_answer_alone_and_in_a_crowd(engine: LLMEngine) -> None:
    alone = await within(engine.score(asking(TEXT), MEALS, deadline=NEVER))
    texts = [TEXT, *(f"{TEXT} {i}" for i in range(4))]
    crowd = await within(asyncio.gather(*(engine.score(asking(text), MEALS, deadline=NEVER) for text in texts)))
    assert crowd[0] == pytest.approx(alone, abs=1e-3)


@pytest.mark.parametrize("priority", PriorityClass)
async def test_any_class_may_score(engine: LLMEngine, priority: PriorityClass) -> None:
    scores = await within(engine.score(asking("Cold juice"), MEALS, deadline=Deadline.after(30), priority=priority))
    assert sum(map(math.exp, scores)) == pytest.approx(1, abs=1e-6)


async def test_a_passed_deadline_is_an_error_of_scoring(engine: LLMEngine) -> None:
    with pytest.raises(DeadlineExceeded):
        await within(engine.score(asking("something never asked before"), MEALS, deadline=Deadline.after(-1)))


async def test_warming_and_trimming_change_no_answer(engine: LLMEngine) -> None:
    before = await within(engine.score(asking(TEXT), MEALS, deadline=NEVER))
    text = (await answer(engine, summary(TEXT, max_tokens=8))).text
    await within(engine.trim())
    await within(engine.warm(MEALS, LabelSet("never seen", {"yes": ("surely",), "no": ("never",)})))
    await within(engine.trim())
    assert await within(engine.score(asking(TEXT), MEALS, deadline=NEVER)) == pytest.approx(before, abs=1e-3)
    assert (await answer(engine, summary(TEXT, max_tokens=8))).text == text


async def test_it_is_healthy(engine: LLMEngine) -> None:
    assert await within(engine.health())


async def test_work_is_counted(engine: LLMEngine) -> None:
    before = engine.stats()
    await within(engine.score(asking("What I ate today was never counted."), MEALS, deadline=NEVER))
    await answer(engine, summary("What I ate today was never counted. It was soup."))
    after = engine.stats()
    assert isinstance(after, EngineStats)
    assert (after.scored - before.scored, after.requests - before.requests) == (1, 1)
    assert (after.running, after.waiting, after.failed) == (0, 0, before.failed)


async def test_reading_the_counters_changes_nothing(engine: LLMEngine) -> None:
    assert engine.stats() == engine.stats()
