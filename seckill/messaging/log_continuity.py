"""Machine: checks that fetched records continue the log that the group has read.

A log that lost its end (a broker restored from a backup) may since have grown past the group's offset. Other records
then stand where the group would continue, and the ones before them would never be read. So reading a partition starts
with the last processed record, which must be the same one. The check is repeated whenever the leader epoch of the
records changes, because a log can only lose records when its leader restarts.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

from kafka import TopicPartition

from seckill.messaging.offsets import LogReplaced
from seckill.messaging.records import record_fingerprint


class CheckedRecords(NamedTuple):
    """`good` continues what was read. `has_new_epoch`: the records after them must be checked again."""

    good: Sequence[Any]
    has_new_epoch: bool


class LogContinuity:
    def __init__(self) -> None:
        self._expected: dict[TopicPartition, str] = {}
        self._epochs: dict[TopicPartition, int] = {}

    def expect(self, partition: TopicPartition, last_record: str) -> None:
        """The next fetch begins with the record of this fingerprint. With "" it begins after it, and nothing is
        checked."""
        self._expected[partition] = last_record
        self._epochs.pop(partition, None)

    def forget(self, partition: TopicPartition) -> None:
        self._expected.pop(partition, None)
        self._epochs.pop(partition, None)

    def check(self, partition: TopicPartition, position: int, records: Sequence[Any]) -> CheckedRecords:
        """Raises `LogReplaced` if the record before `position` is not the one that was read."""
        expected = self._expected.pop(partition, "")
        if expected:
            if records[0].offset != position - 1 or record_fingerprint(records[0]) != expected:
                raise LogReplaced(partition, position - 1)
            self._epochs[partition] = _leader_epoch(records[min(1, len(records) - 1)])
            records = records[1:]
        if not records:
            return CheckedRecords((), False)
        known = self._epochs.setdefault(partition, _leader_epoch(records[0]))
        if _leader_epoch(records[0]) == known == _leader_epoch(records[-1]):
            return CheckedRecords(records, False)
        good = [record for record in records if _leader_epoch(record) == known]
        return CheckedRecords(good, True)


def _leader_epoch(record: Any) -> int:
    return int(getattr(record, "leader_epoch", -1) or 0)
