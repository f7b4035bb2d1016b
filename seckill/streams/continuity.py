"""Machine: does what is fetched follow what was read? A log that has lost its end may have grown past a group's offset
since, and then other records stand where the group would go on: those between would never be read.

So a partition is entered at the last record that was read, which has to be the same one. Later that is looked at again
whenever the leader epoch of the records changes, because a log can lose something only when its leader starts anew.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

from kafka import TopicPartition

from seckill.streams.offsets import OtherLog
from seckill.streams.records import identity


class Followed(NamedTuple):
    """`good` follows what was read. `enter_again`: what comes after these has another leader epoch."""

    good: Sequence[Any]
    enter_again: bool


class Continuity:
    def __init__(self) -> None:
        self._expected: dict[TopicPartition, str] = {}
        self._epochs: dict[TopicPartition, int] = {}

    def enter(self, partition: TopicPartition, last_record: str) -> None:
        """The next fetch begins with the record of this identity; with "" it begins behind it, and nothing is known."""
        self._expected[partition] = last_record
        self._epochs.pop(partition, None)

    def forget(self, partition: TopicPartition) -> None:
        self._expected.pop(partition, None)
        self._epochs.pop(partition, None)

    def follow(self, partition: TopicPartition, position: int, records: Sequence[Any]) -> Followed:
        """`OtherLog` if the record before `position` is not the one that was read."""
        expected = self._expected.pop(partition, "")
        if expected:
            if records[0].offset != position - 1 or identity(records[0]) != expected:
                raise OtherLog(partition, position - 1)
            self._epochs[partition] = _epoch(records[min(1, len(records) - 1)])
            records = records[1:]
        if not records:
            return Followed((), False)
        known = self._epochs.setdefault(partition, _epoch(records[0]))
        if _epoch(records[0]) == known == _epoch(records[-1]):
            return Followed(records, False)
        good = [record for record in records if _epoch(record) == known]
        return Followed(good, True)


def _epoch(record: Any) -> int:
    return int(getattr(record, "leader_epoch", -1) or 0)
