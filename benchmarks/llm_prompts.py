"""What the models are asked: made-up tokens where only the work counts, questions where the answer does."""

import random

from benchmarks.media import load_clips, media_root

TOKEN_IDS = range(100, 40_000)
"""Words and parts of words of the model's 49,152: no control tokens."""

QUESTIONS = (
    "Name three animals that live in the sea.",
    "What is the capital of France, and what is it known for?",
    "Count from one to twenty in words.",
    "Write one sentence about a dog that waits for a train.",
    "Explain to a child why the sky is blue.",
    "Translate into French: The weather is nice today.",
    "What is 17 plus 25? Show how you got there.",
    "Write a Python function that returns the largest of three numbers.",
    "List the days of the week, one on each line.",
    "Summarise in one sentence: The rover landed on Mars, took pictures of the dunes and sent them back to Earth.",
    "Is this review positive or negative: I waited for an hour and the food was cold.",
    "Write a title for a video in which a cook fries an egg on a hot stone.",
    "Who wrote Romeo and Juliet, and when?",
    "Give the opposite of each word: hot, early, brave, empty.",
    "Continue the story: The lighthouse keeper heard a knock, although nobody lived within ten miles.",
    'Answer in JSON with the keys "topic" and "mood": We won the cup, the whole town is dancing!',
    "用一句话介绍长城。",
    "请写出三种水果的名字。",
    "¿Cuántos meses tiene un año?",
    "What do the symbols ∑, √ and π stand for? 🙂",
)
"""Twenty short requests in several languages and scripts, for answers that are compared token by token."""

Prompt = list[int]


def made_up_prompt(length: int, *, seed: str) -> Prompt:
    """Return tokens that no cache has seen. The same seed gives the same."""
    return random.Random(seed).choices(TOKEN_IDS, k=length)


def spoken_texts() -> list[tuple[str, str | None]]:
    """Return what is said in each clip that has words, as the manifest tells it, and in which language."""
    return [(clip.transcript, clip.language) for clip in load_clips(media_root()) if clip.transcript]
