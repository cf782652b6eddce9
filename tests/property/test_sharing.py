"""However members come and go, every topic is shared out evenly, and nobody gets what somebody else still has."""

from collections import Counter

from hypothesis import given
from hypothesis import strategies as st

from pipeline.bus.base import Partition
from pipeline.bus.sharing import Shares, free_shares, shares

TOPICS = ("backfill", "realtime", "third")
PARTITIONS = st.sets(st.builds(Partition, st.sampled_from(TOPICS), st.integers(0, 11)))
MEMBERS = st.dictionaries(st.sampled_from("abcdef"), st.sets(st.sampled_from(TOPICS)), min_size=1)
ALL = st.dictionaries(st.sampled_from("abcdef"), st.just(set(TOPICS)), min_size=1)


def owned_at_will(draw: st.DrawFn, members: dict[str, set[str]], partitions: set[Partition]) -> Shares:
    owned: Shares = {member: set() for member in members}
    for partition in sorted(partitions):
        owner = draw(st.sampled_from([None, *sorted(members)]))
        if owner is not None:
            owned[owner].add(partition)
    return owned


@given(PARTITIONS, MEMBERS, st.data())
def test_every_partition_has_one_owner_who_wants_it_and_every_topic_is_even(partitions, members, data):
    owned = owned_at_will(data.draw, members, partitions)
    found = shares(partitions, subscribed=members, owned=owned)
    owners = Counter(partition for share in found.values() for partition in share)
    wanted = {partition for partition in partitions if any(partition.topic in topics for topics in members.values())}
    assert owners == dict.fromkeys(wanted, 1)
    for topic in TOPICS:
        takers = [member for member, topics in members.items() if topic in topics]
        counts = [sum(partition.topic == topic for partition in found[member]) for member in takers]
        assert not counts or max(counts) - min(counts) <= 1
    assert all(partition.topic in members[member] for member, share in found.items() for partition in share)


@given(PARTITIONS, MEMBERS, st.data())
def test_what_is_shared_out_well_stays_as_it_is(partitions, members, data):
    once = shares(partitions, subscribed=members, owned=owned_at_will(data.draw, members, partitions))
    assert shares(partitions, subscribed=members, owned=once) == once


@given(PARTITIONS, ALL, st.data())
def test_when_somebody_leaves_the_others_keep_what_they_have_but_for_what_is_over(partitions, members, data):
    before = shares(partitions, subscribed=members, owned={})
    gone = data.draw(st.sampled_from(sorted(members)))
    left = {member: topics for member, topics in members.items() if member != gone}
    if left:
        after = shares(partitions, subscribed=left, owned={member: before[member] for member in left})
        for member in left:
            lost = Counter(partition.topic for partition in before[member] - after[member])
            assert all(count <= 1 for count in lost.values())


@given(PARTITIONS, MEMBERS, st.data())
def test_a_few_rounds_are_enough_and_nobody_gets_what_another_has(partitions, members, data):
    owned = owned_at_will(data.draw, members, partitions)
    for _ in range(1 + len(TOPICS)):
        now = free_shares(shares(partitions, subscribed=members, owned=owned), owned=owned)
        for member, share in now.items():
            assert not any(share & owned[other] for other in members if other != member)
        owned = now
    assert owned == shares(partitions, subscribed=members, owned=owned)


def test_a_partition_that_two_claim_goes_to_nobody_at_first():
    partition = Partition("realtime", 0)
    owned = {"a": {partition}, "b": {partition}}
    wanted = shares([partition], subscribed={"a": ["realtime"], "b": ["realtime"]}, owned=owned)
    assert free_shares(wanted, owned=owned) == {"a": set(), "b": set()}


def test_a_worker_that_joins_gets_half_of_each_lane():
    lanes = [Partition(topic, number) for topic in ("backfill", "realtime") for number in range(6)]
    topics = ["backfill", "realtime"]
    found = shares(lanes, subscribed={"new": topics, "old": topics}, owned={"old": set(lanes), "new": set()})
    for share in found.values():
        assert Counter(partition.topic for partition in share) == {"backfill": 3, "realtime": 3}
