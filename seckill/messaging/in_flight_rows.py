"""Machine: which outbox rows are in flight in each partition, and which rows are blocked behind them.

The rows of a partition are sent in the order of their ids. While a partition has unacknowledged rows, its later rows
are remembered as blocked; they are selected again, from the first one, when the partition is free.
"""

from __future__ import annotations

from typing import Any, NamedTuple

PartitionName = tuple[str, int]
"""Topic and partition."""
BLOCKED_ROWS_MAX = 200_000
"""With more rows than this blocked behind offline partitions, no further rows are selected."""


class SentRow(NamedTuple):
    id: int
    future: Any


class SettledRows(NamedTuple):
    """Rows by the broker's answer; `rejected` carries the reasons."""

    acknowledged: list[int]
    rejected: list[tuple[int, BaseException]]


class InFlightRows:
    def __init__(self) -> None:
        self._in_flight: dict[PartitionName, list[SentRow]] = {}
        self._blocked: dict[PartitionName, list[int]] = {}

    @property
    def has_any(self) -> bool:
        return bool(self._in_flight)

    @property
    def is_full(self) -> bool:
        return sum(map(len, self._blocked.values())) >= BLOCKED_ROWS_MAX

    def is_busy(self, partition: PartitionName) -> bool:
        return partition in self._in_flight

    def add_sent(self, partition: PartitionName, rows: list[SentRow]) -> None:
        self._in_flight[partition] = rows

    def add_blocked(self, partition: PartitionName, row: int) -> None:
        self._blocked.setdefault(partition, []).append(row)

    def known_ids(self) -> list[int]:
        """Rows that need not be selected again for now."""
        ids = [row.id for rows in self._in_flight.values() for row in rows]
        return ids + [row for rows in self._blocked.values() for row in rows]

    def take_settled(self) -> SettledRows:
        """The rows that the broker has answered since the last call. A partition without unanswered rows is free again,
        and its blocked rows are forgotten."""
        acknowledged: list[int] = []
        rejected: list[tuple[int, BaseException]] = []
        for partition, rows in list(self._in_flight.items()):
            for row in rows:
                if row.future.failed():
                    rejected.append((row.id, row.future.exception))
                elif row.future.succeeded():
                    acknowledged.append(row.id)
            unanswered = [row for row in rows if not row.future.is_done]
            if unanswered:
                self._in_flight[partition] = unanswered
            else:
                del self._in_flight[partition]
                self._blocked.pop(partition, None)
        return SettledRows(acknowledged, rejected)
