"""Our way of sharing partitions out (``sharing.py``), as kafka-python's group leader calls it."""

from collections import defaultdict
from typing import Any

from kafka.coordinator.assignors.cooperative_sticky import CooperativeStickyAssignor
from kafka.protocol.consumer.metadata import ConsumerProtocolAssignment

from pipeline.bus.base import Partition
from pipeline.bus.sharing import free_shares, shares


class TopicwiseAssignor(CooperativeStickyAssignor):  # type: ignore[misc]  # the base is untyped
    """Shares every topic out by itself, in the two rounds of the cooperative protocol.

    In the first, members let go of what is to move; in the second, its new owners get it. What travels on the wire is
    the base class's business.
    """

    name = "topicwise-sticky"

    def assign(self, cluster: Any, members: Any) -> dict[str, Any]:
        """Return what every member may have now."""
        subscribed = {member.member_id: set(member.metadata.topics) for member in members}
        owned = {member.member_id: _owned(self.parse_member_metadata(member.metadata)) for member in members}
        partitions = [
            Partition(topic, number)
            for topic in set().union(*subscribed.values())
            for number in cluster.partitions_for_topic(topic) or ()
        ]
        now = free_shares(shares(partitions, subscribed=subscribed, owned=owned), owned=owned)
        return {
            member: ConsumerProtocolAssignment(self.version, _by_topic(share), b"") for member, share in now.items()
        }


def _owned(metadata: Any) -> set[Partition]:
    return {Partition(partition.topic, partition.partition) for partition in metadata.partitions}


def _by_topic(share: set[Partition]) -> list[tuple[str, list[int]]]:
    numbers: defaultdict[str, list[int]] = defaultdict(list)
    for topic, number in sorted(share):
        numbers[topic].append(number)
    return list(numbers.items())
