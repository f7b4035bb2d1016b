"""Machine: which outbox rows are under way, partition by partition, and which have to wait behind them.

Rows of one partition go in the order of their ids. A partition that does not acknowledge keeps its own rows waiting:
they are seen, left where they are, and taken again from the first once it is through.
"""

from __future__ import annotations

from typing import Any, NamedTuple

Lane = tuple[str, int]
"""Topic and partition."""
BEHIND_MAX = 200_000
"""Rows that may wait behind partitions that stand still; then no more are taken, for anybody."""


class Sent(NamedTuple):
    id: int
    future: Any


class Settled(NamedTuple):
    """Rows by what came of them; `refused` carries the reason."""

    acknowledged: list[int]
    refused: list[tuple[int, BaseException]]


class Lanes:
    def __init__(self) -> None:
        self._under_way: dict[Lane, list[Sent]] = {}
        self._behind: dict[Lane, list[int]] = {}

    @property
    def is_any_busy(self) -> bool:
        return bool(self._under_way)

    @property
    def are_full(self) -> bool:
        return sum(map(len, self._behind.values())) >= BEHIND_MAX

    def is_busy(self, lane: Lane) -> bool:
        return lane in self._under_way

    def send(self, lane: Lane, sent: list[Sent]) -> None:
        self._under_way[lane] = sent

    def wait_behind(self, lane: Lane, row: int) -> None:
        self._behind.setdefault(lane, []).append(row)

    def known(self) -> list[int]:
        """Rows that need not be read again for now."""
        ids = [sent.id for lane in self._under_way.values() for sent in lane]
        return ids + [row for rows in self._behind.values() for row in rows]

    def settle(self) -> Settled:
        """What has been answered since. A lane that is through is free again, and what waited behind it is unknown."""
        acknowledged: list[int] = []
        refused: list[tuple[int, BaseException]] = []
        for lane, sent in list(self._under_way.items()):
            for each in sent:
                if each.future.failed():
                    refused.append((each.id, each.future.exception))
                elif each.future.succeeded():
                    acknowledged.append(each.id)
            left = [each for each in sent if not each.future.is_done]
            if left:
                self._under_way[lane] = left
            else:
                del self._under_way[lane]
                self._behind.pop(lane, None)
        return Settled(acknowledged, refused)
