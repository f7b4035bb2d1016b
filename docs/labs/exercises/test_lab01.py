"""Lab 1: .venv/bin/pytest docs/labs/exercises/test_lab01.py"""

from __future__ import annotations

import itertools

from docs.labs.exercises import lab01_oversell as lab


class BusyRow:
    """Another consumer sells a unit between the first reads and writes."""

    def __init__(self, available: int, interruptions: int) -> None:
        self.version, self.available, self.sold = 1, available, 0
        self._interruptions = interruptions

    def read(self) -> tuple[int, int]:
        seen = self.version, self.available
        if self._interruptions and self.available:
            self._interruptions -= 1
            self.update(self.version, self.available - 1)
        return seen

    def update(self, version: int, available: int) -> bool:
        if version != self.version:
            return False
        self.sold += self.available - available
        self.version, self.available = version + 1, available
        return True


def test_1_each_unit_is_sold_once_although_others_write_in_between() -> None:
    row = BusyRow(available=10, interruptions=3)
    mine = sum(lab.sell_one(row) for _ in range(10))
    assert (mine, row.sold, row.available) == (7, 10, 0)
    assert not lab.sell_one(row)


def test_2_the_first_entry_that_oversells_is_named() -> None:
    declare = lab.Entry(1, "supply", "available", 3)
    reserved = [lab.Entry(number, "available", "reserved", 1) for number in range(2, 6)]
    assert lab.first_oversold_version([declare, *reversed(reserved)], 3) == 5
    assert lab.first_oversold_version([declare, *reserved[:3]], 3) is None
    paid, returned = lab.Entry(6, "reserved", "sold", 1), lab.Entry(7, "reserved", "available", 1)
    again = lab.Entry(8, "available", "reserved", 1)
    assert lab.first_oversold_version([declare, *reserved[:3], paid, returned, again], 3) is None


def test_3_no_two_batches_wait_for_each_other_in_a_circle() -> None:
    batches = [[3, 1, 2], [2, 3], [1, 3, 1]]
    orders = [lab.locking_order(batch) for batch in batches]
    assert [set(order) for order in orders] == [set(batch) for batch in batches]
    for one, other in itertools.combinations(orders, 2):
        common = set(one) & set(other)
        assert [each for each in one if each in common] == [each for each in other if each in common]
