"""Lab 6 · the zombie consumer: three small tasks about fences."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass
class OffsetRow:
    """The row of a group and a partition."""

    epoch: int = 0
    next_offset: int = 0


@dataclass(frozen=True)
class Claim:
    epoch: int
    next_offset: int


def claim(row: OffsetRow) -> Claim:
    """Task 1: take the partition over. Every earlier claim must be refused from now on; processing continues where the
    row says."""
    raise NotImplementedError("task 6.1")


def advance(row: OffsetRow, mine: Claim, start: int, end: int) -> bool:
    """Task 2: UPDATE … SET next_offset = end WHERE …: only under the claim that the row has now, and only if the batch
    begins where the row is. False: no row has changed."""
    raise NotImplementedError("task 6.2")


class Storage:
    """A service that writers reach with a fencing token: a number that grows with each lease."""

    def __init__(self) -> None:
        self.written: list[str] = []
        self.newest_token = 0


def write(storage: Storage, token: int, text: str) -> bool:
    """Task 3: the storage refuses a token that is older than one it has seen. The same token may write again."""
    raise NotImplementedError("task 6.3")
