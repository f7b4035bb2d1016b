"""Each partitioner spreads keys evenly; they differ in how many keys move when a topic grows."""

from __future__ import annotations

import random
from collections import Counter

import pytest
from kafka.partitioner.default import DefaultPartitioner

from seckill.messaging.partitioners import (
    SLOTS,
    HashRing,
    HashSlots,
    KafkaPartitioner,
    PartitionChooser,
    RandomPartition,
    RoundRobin,
    SlotTable,
    StickyPartition,
    by_murmur2,
    slot_of,
)

KEYS = [f"user-{number}".encode() for number in range(12_000)]
TWELVE, SIXTEEN = list(range(12)), list(range(16))


def spread(partitioner: PartitionChooser) -> Counter[int]:
    return Counter(partitioner(key, TWELVE, TWELVE) for key in KEYS)


def moved(before: PartitionChooser, after: PartitionChooser) -> float:
    """The share of keys that go elsewhere when twelve partitions become sixteen."""
    changed = sum(before(key, TWELVE, TWELVE) != after(key, SIXTEEN, SIXTEEN) for key in KEYS)
    return changed / len(KEYS)


@pytest.mark.parametrize(
    ("partitioner", "tolerance"),
    [
        (by_murmur2, 0.15),
        (RoundRobin(), 0.0),
        (RandomPartition(random.Random(1)), 0.15),
        (StickyPartition(10, random.Random(1)), 0.4),
        (HashRing(), 0.5),
        (HashSlots(SlotTable.even(12)), 0.2),
    ],
    ids=lambda value: getattr(value, "__name__", type(value).__name__),
)
def test_keys_are_spread_over_all_partitions(partitioner: PartitionChooser, tolerance: float) -> None:
    counts = spread(partitioner)
    assert set(counts) == set(TWELVE)
    assert max(abs(count - 1000) for count in counts.values()) <= 1000 * tolerance


class Cluster:
    """The part of the client's metadata that a partitioner reads."""

    def topics(self) -> set[str]:
        return {"t"}

    def partitions_for_topic(self, topic: str) -> set[int]:
        return set(TWELVE)

    available_partitions_for_topic = partitions_for_topic


def test_murmur2_agrees_with_every_other_kafka_client() -> None:
    ours, clients = KafkaPartitioner(by_murmur2), DefaultPartitioner()
    for key in KEYS[:1000]:
        asked = ("t", None, key, None, b"", Cluster())
        assert ours.partition(*asked) == clients.partition(*asked)


def test_growing_a_topic_moves_most_keys_by_modulo_a_share_by_ring_and_none_by_slots() -> None:
    table = SlotTable.even(12)
    assert 0.70 < moved(by_murmur2, by_murmur2) < 0.80  # 3 of 4: all but those where both moduli agree
    assert 0.15 < moved(HashRing(), HashRing()) < 0.35  # 1 of 4: what the four new ones take
    assert moved(HashSlots(table), HashSlots(table)) == 0
    for slot, partition in table.moves_to(16).items():
        table = table.moved(slot, partition)
    assert 0.2 < moved(HashSlots(SlotTable.even(12)), HashSlots(table)) < 0.3


def test_the_moves_are_the_fewest_and_leave_even_shares() -> None:
    table = SlotTable.even(12)
    moves = table.moves_to(16)
    assert len(moves) == SLOTS // 4
    assert set(moves.values()) == {12, 13, 14, 15}
    for slot, partition in moves.items():
        table = table.moved(slot, partition)
    assert set(Counter(table.partition_of).values()) == {SLOTS // 16}
    assert table.version == 1 + len(moves)
    assert table.moves_to(16) == {}


def test_moving_a_slot_moves_only_its_keys() -> None:
    before = SlotTable.even(12)
    slot = slot_of(KEYS[0])
    after = before.moved(slot, (before.partition_of[slot] + 1) % 12)
    elsewhere = [key for key in KEYS if HashSlots(before)(key, TWELVE, TWELVE) != HashSlots(after)(key, TWELVE, TWELVE)]
    assert elsewhere == [key for key in KEYS if slot_of(key) == slot]


def test_the_sticky_partitioner_keeps_a_partition_for_a_batch() -> None:
    sticky = StickyPartition(5, random.Random(3))
    chosen = [sticky(None, TWELVE, TWELVE) for _ in range(20)]
    assert all(len(set(chosen[start : start + 5])) == 1 for start in range(0, 20, 5))
