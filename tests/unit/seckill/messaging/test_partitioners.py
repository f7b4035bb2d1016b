"""Each partitioner spreads keys evenly; they differ in how many keys move when a topic grows."""

from __future__ import annotations

import random
from collections import Counter

import pytest
from kafka.partitioner.default import DefaultPartitioner

from seckill.streams.partitioners import (
    SLOTS,
    Chosen,
    HashSlots,
    Random,
    Ring,
    RoundRobin,
    SlotTable,
    Sticky,
    Way,
    by_murmur2,
    slot_of,
)

KEYS = [f"user-{number}".encode() for number in range(12_000)]
TWELVE, SIXTEEN = list(range(12)), list(range(16))


def spread(partitioner: Way) -> Counter[int]:
    return Counter(partitioner(key, TWELVE, TWELVE) for key in KEYS)


def moved(before: Way, after: Way) -> float:
    """The share of keys that go elsewhere when twelve partitions become sixteen."""
    changed = sum(before(key, TWELVE, TWELVE) != after(key, SIXTEEN, SIXTEEN) for key in KEYS)
    return changed / len(KEYS)


@pytest.mark.parametrize(
    ("partitioner", "tolerance"),
    [
        (by_murmur2, 0.15),
        (RoundRobin(), 0.0),
        (Random(random.Random(1)), 0.15),
        (Sticky(10, random.Random(1)), 0.4),
        (Ring(), 0.5),
        (HashSlots(SlotTable.even(12)), 0.2),
    ],
    ids=lambda value: getattr(value, "__name__", type(value).__name__),
)
def test_keys_are_spread_over_all_partitions(partitioner: Way, tolerance: float) -> None:
    counts = spread(partitioner)
    assert set(counts) == set(TWELVE)
    assert max(abs(count - 1000) for count in counts.values()) <= 1000 * tolerance


class Cluster:
    """As much of the client's metadata as a partitioner looks at."""

    def topics(self) -> set[str]:
        return {"t"}

    def partitions_for_topic(self, topic: str) -> set[int]:
        return set(TWELVE)

    available_partitions_for_topic = partitions_for_topic


def test_murmur2_agrees_with_every_other_kafka_client() -> None:
    ours, clients = Chosen(by_murmur2), DefaultPartitioner()
    for key in KEYS[:1000]:
        asked = ("t", None, key, None, b"", Cluster())
        assert ours.partition(*asked) == clients.partition(*asked)


def test_growing_a_topic_moves_most_keys_by_modulo_a_share_by_ring_and_none_by_slots() -> None:
    table = SlotTable.even(12)
    assert 0.70 < moved(by_murmur2, by_murmur2) < 0.80  # 3 of 4: all but those where both moduli agree
    assert 0.15 < moved(Ring(), Ring()) < 0.35  # 1 of 4: what the four new ones take
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


def test_a_move_moves_one_slot_and_its_keys_only() -> None:
    before = SlotTable.even(12)
    slot = slot_of(KEYS[0])
    after = before.moved(slot, (before.partition_of[slot] + 1) % 12)
    elsewhere = [key for key in KEYS if HashSlots(before)(key, TWELVE, TWELVE) != HashSlots(after)(key, TWELVE, TWELVE)]
    assert elsewhere == [key for key in KEYS if slot_of(key) == slot]


def test_sticky_stays_for_a_batch() -> None:
    sticky = Sticky(5, random.Random(3))
    chosen = [sticky(None, TWELVE, TWELVE) for _ in range(20)]
    assert all(len(set(chosen[start : start + 5])) == 1 for start in range(0, 20, 5))
