"""Notes where partitions end whenever kafka-python has fetched, without asking the broker for it.

kafka-python keeps the newest end of each partition itself (``highwater``), but not when that was so: an answer that lay
unread while the process was frozen would pass for news.
"""

from collections.abc import Callable, Iterable
from typing import Any

from kafka.structs import TopicPartition

from pipeline.bus.base import Partition
from pipeline.bus.ends import PartitionEnds


def note_ends(fetcher: Any, ends: PartitionEnds) -> None:
    """Have ``ends`` told of every answer to ``fetcher``, on kafka-python's thread. There is no public way."""
    handle: Callable[..., None] = fetcher._handle_fetch_response  # noqa: SLF001

    def handle_and_note(node: Any, fetched: Iterable[Any], sent_s: float, response: Any) -> None:
        handle(node, fetched, sent_s, response)
        _note(ends, fetched, sent_s, response)

    fetcher._handle_fetch_response = handle_and_note  # noqa: SLF001


def _note(ends: PartitionEnds, fetched: Iterable[Any], sent_s: float, response: Any) -> None:
    """Take the ends out of a response to a request for the partitions ``fetched`` that was sent at ``sent_s``."""
    if response.error_code or response.throttle_time_ms:  # who is throttled gets an empty answer that means nothing
        return
    answers = {
        TopicPartition(topic.topic, answer.partition_index): answer
        for topic in response.responses
        for answer in topic.partitions
    }
    for asked in fetched:
        partition = Partition(asked.topic, asked.partition)
        answer = answers.get(asked)
        if answer is None:  # of a fetch session: what has not changed is left out
            ends.note_unchanged(partition, seen_s=sent_s)
        elif answer.error_code == 0:
            ends.note(partition, answer.high_watermark, seen_s=sent_s)
