"""Who of a consumer group gets which partitions. Pure and synchronous.

Every topic is shared out evenly by itself: its members' shares differ by one partition at most. A strategy that only
looks at totals may give one worker all realtime partitions and another one all of backfill. Within that, whoever has a
partition keeps it, and what is over of one topic goes to those who have less of the others.
"""

from collections.abc import Collection, Mapping

from pipeline.bus.base import Partition

Shares = dict[str, set[Partition]]
"""Partitions of each member, by its id."""


def shares(
    partitions: Collection[Partition], *, subscribed: Mapping[str, Collection[str]], owned: Mapping[str, set[Partition]]
) -> Shares:
    """Return everyone's share of ``partitions``, moving as few as possible. Those nobody subscribed to are left out.

    ``subscribed``: the topics of each member; ``owned``: what it has now.
    """
    found: Shares = {member: set() for member in sorted(subscribed)}
    for topic in sorted({partition.topic for partition in partitions}):
        takers = [member for member in found if topic in subscribed[member]]
        if takers:
            _share_out(sorted(p for p in partitions if p.topic == topic), takers, owned=owned, found=found)
    return found


def _share_out(
    partitions: list[Partition], takers: list[str], *, owned: Mapping[str, set[Partition]], found: Shares
) -> None:
    """Add the share of each of ``takers`` in the ``partitions`` of one topic to ``found``."""
    free = list(partitions)
    kept: dict[str, list[Partition]] = {}
    for taker in takers:
        kept[taker] = [partition for partition in free if partition in owned.get(taker, ())]
        free = [partition for partition in free if partition not in kept[taker]]
    least, over = divmod(len(partitions), len(takers))
    by_claim = sorted(takers, key=lambda taker: (len(found[taker]), -len(kept[taker])))
    quota = {taker: least + (place < over) for place, taker in enumerate(by_claim)}
    for taker in takers:
        free += kept[taker][quota[taker] :]
        found[taker].update(kept[taker][: quota[taker]])
    for taker in takers:
        missing = quota[taker] - len(kept[taker][: quota[taker]])
        found[taker].update(free[:missing])
        del free[:missing]


def free_shares(wanted: Shares, *, owned: Mapping[str, set[Partition]]) -> Shares:
    """Return the part of ``wanted`` that can be had now: what others own they must let go of first."""
    return {
        member: {p for p in share if not any(p in owned[other] for other in owned if other != member)}
        for member, share in wanted.items()
    }
