"""The vocabulary that ships is complete, and shares nothing with the texts that measure it."""

import json
from pathlib import Path

from llm_engine.labels import SAFE, load_vocabulary

TRUTH = Path(__file__).resolve().parents[2] / "benchmarks" / "text_truth.jsonl"


def test_every_label_is_described_in_both_languages() -> None:
    vocabulary = load_vocabulary()
    for labels in (vocabulary.topics, vocabulary.safety):
        for label in labels.labels:
            phrases = labels.descriptions[label]
            assert any(phrase.isascii() for phrase in phrases), label
            assert any("\u4e00" <= phrase[0] <= "\u9fff" for phrase in phrases), label


def test_whatever_describes_a_topic_counts_as_safe() -> None:
    vocabulary = load_vocabulary()
    safe = set(vocabulary.safety.descriptions[SAFE])
    assert all(safe.issuperset(phrases) for phrases in vocabulary.topics.descriptions.values())


def test_no_phrase_is_taken_from_the_measured_texts() -> None:
    vocabulary = load_vocabulary()
    phrases = {
        p for labels in (vocabulary.topics, vocabulary.safety) for ps in labels.descriptions.values() for p in ps
    }
    assert phrases.isdisjoint(json.loads(line)["text"] for line in TRUTH.read_text("utf-8").splitlines())
