"""Lab 10: .venv/bin/pytest docs/labs/exercises/test_lab10.py"""

from __future__ import annotations

from collections import Counter

import pytest

from docs.labs.exercises import lab10_growing_topic as lab
from seckill.messaging.partitioners import SlotTable


def test_1_with_modulo_most_keys_move() -> None:
    keys = [f"user-{number}".encode() for number in range(2000)]
    assert lab.moved_share(keys, 2, 3) == pytest.approx(2 / 3, abs=0.05)
    assert lab.moved_share(keys, 12, 12) == 0


@pytest.mark.parametrize(("before", "after"), [(2, 3), (12, 13), (3, 12), (4, 4)])
def test_2_as_few_slots_as_possible_move(before: int, after: int) -> None:
    table = SlotTable.even(before)
    moves = lab.moves_for(table.partition_of, after)
    counts = Counter(moves.get(slot, partition) for slot, partition in enumerate(table.partition_of))
    assert max(counts.values()) - min(counts[partition] for partition in range(after)) <= 1
    assert len(moves) == len(table.moves_to(after))
    assert all(table.partition_of[slot] != partition for slot, partition in moves.items())


@pytest.mark.parametrize(
    ("versions", "offset", "may"), [([7, 8], 50, True), ([], 50, True), ([6, 7], 50, False), ([7], 49, False)]
)
def test_3_a_slot_switches_after_producers_know_and_the_group_has_read(
    versions: list[int], offset: int, may: bool
) -> None:
    assert lab.may_switch(7, versions, offset, 50) is may
