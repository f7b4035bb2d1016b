"""Lab 1 · read, then write: three small tasks. Run the tests of docs/labs/exercises/test_lab01.py until they pass."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple, Protocol


class Row(Protocol):
    """A stock row that other consumers change at any time."""

    def read(self) -> tuple[int, int]:
        """(version, available)"""

    def update(self, version: int, available: int) -> bool:
        """Write `available` and the next version, if the row still has this version. False: it has another one."""


class Entry(NamedTuple):
    """A ledger entry: units move from one account to another. Accounts: supply, available, reserved, sold."""

    version: int
    debit: str
    credit: str
    units: int


def sell_one(row: Row) -> bool:
    """Task 1: take one unit without a lock. False: none was left. Others may write between your read and your write."""
    while True:
        version, available = row.read()
        if not available:
            return False
        if row.update(version, available - 1):
            return True


def first_oversold_version(entries: Sequence[Entry], units: int) -> int | None:
    """Task 2: the version of the first entry after which buyers hold more than `units`, or None. They hold what is
    reserved or sold; units may come back. The entries are not sorted."""
    held = 0
    for entry in sorted(entries):
        held += entry.units * ((entry.credit in ("reserved", "sold")) - (entry.debit in ("reserved", "sold")))
        if held > units:
            return entry.version
    return None


def locking_order(articles: Sequence[int]) -> list[int]:
    """Task 3: in which order a batch locks the stock rows of its articles, so that two batches never deadlock. An
    article may occur several times in a batch."""
    return sorted(set(articles))
