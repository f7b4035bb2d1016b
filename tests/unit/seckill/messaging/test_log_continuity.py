"""Fetched records must continue the log that was read; otherwise the group halts."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest
from kafka import TopicPartition

from seckill.messaging.log_continuity import LogContinuity
from seckill.messaging.offsets import LogReplaced
from seckill.messaging.records import record_fingerprint

PARTITION = TopicPartition("events", 0)


def record(offset: int, value: bytes = b"same", epoch: int = 3) -> Any:
    return SimpleNamespace(offset=offset, timestamp=1, key=b"k", value=value, headers=[], leader_epoch=epoch)


def after(last: Any) -> LogContinuity:
    """The group has processed this record, and fetches it again."""
    continuity = LogContinuity()
    continuity.expect(PARTITION, record_fingerprint(last))
    return continuity


def test_the_last_processed_record_is_recognised_and_not_processed_again() -> None:
    records = [record(4), record(5), record(6)]
    assert after(record(4)).check(PARTITION, 5, records) == (records[1:], False)


@pytest.mark.parametrize("first", [record(4, b"another"), record(5)], ids=["another record", "a gap"])
def test_a_different_record_at_its_offset_means_that_the_log_was_replaced(first: Any) -> None:
    with pytest.raises(LogReplaced):
        after(record(4)).check(PARTITION, 5, [first, record(6)])


def test_without_a_known_record_nothing_is_checked() -> None:
    """The control."""
    continuity = LogContinuity()
    continuity.expect(PARTITION, "")
    assert continuity.check(PARTITION, 5, [record(5, b"another")]).good


def test_records_of_a_new_leader_epoch_are_held_back_for_another_check() -> None:
    continuity = after(record(4))
    old, new = record(5), record(6, epoch=4)
    assert continuity.check(PARTITION, 5, [record(4), old, new]) == ([old], True)
