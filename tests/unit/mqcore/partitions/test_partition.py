"""The leader's copy of a partition: appending, reading, leader epochs, deleting records."""

from __future__ import annotations

import struct

import pytest

from mqcore.disk.memory import MemoryDisk
from mqcore.identity import LeaderEpoch
from mqcore.partitions.reads import Divergence, LeaderEpochMismatch, ReadRequest, ReadResult
from mqcore.wire.batches import LOG_APPEND_TIME, check_crc
from mqcore.wire.errors import ErrorCode
from mqcore.wire.records import Record
from tests.unit.mqcore.partitions.helpers import (
    DURABLE,
    NOW_MS,
    PartitionHarness,
    batch,
    error_name,
    offsets_of,
    with_valid_crc,
)


def test_batches_get_the_next_offsets_and_the_leader_epoch() -> None:
    harness = PartitionHarness()
    assert offsets_of(harness.append(batch(b"a", b"b"))) == (0, 2)
    assert offsets_of(harness.append(batch(b"c"))) == (2, 3)
    assert [(found.base_offset, found.leader_epoch) for found in harness.headers(0)] == [(0, 3), (2, 3)]
    assert harness.partition.high_watermark == 3


def test_a_fetch_inside_a_batch_returns_the_whole_batch() -> None:
    harness = PartitionHarness()
    harness.append(batch(b"a", b"b", b"c"))
    assert harness.fetch(2) == [0]


def test_the_first_batch_is_complete_even_if_it_exceeds_the_byte_limit() -> None:
    harness = PartitionHarness()
    harness.append(batch(b"x" * 1000))
    assert harness.fetch(0, max_bytes=1) == [0]
    small = harness.partition.read(ReadRequest(0, 1, at_least_one=False))
    assert isinstance(small, ReadResult) and small.records is None


@pytest.mark.parametrize("offset", [-1, 4, 1 << 60])
def test_an_offset_outside_of_the_log_is_out_of_range(offset: int) -> None:
    harness = PartitionHarness()
    harness.append(batch(b"a", b"b", b"c"))
    outcome = harness.partition.read(ReadRequest(offset, 1000))
    assert error_name(outcome) == "OFFSET_OUT_OF_RANGE"


def test_a_fetch_at_the_end_is_empty_and_not_out_of_range() -> None:
    harness = PartitionHarness()
    harness.append()
    assert harness.fetch(1) == []


def test_the_broker_sets_the_append_time_and_a_matching_crc() -> None:
    harness = PartitionHarness({"message.timestamp.type": "LogAppendTime"})
    outcome = harness.append(batch(timestamp=5), now_ms=NOW_MS + 9)
    assert offsets_of(outcome) == (0, 1)
    fetched = harness.partition.read(ReadRequest(0, 1000))
    assert isinstance(fetched, ReadResult) and fetched.records is not None
    (found,) = harness.headers(0)
    assert found.attributes & LOG_APPEND_TIME and found.max_timestamp == NOW_MS + 9
    check_crc(fetched.records.read(), found)


def test_internal_records_get_consecutive_offsets() -> None:
    harness = PartitionHarness()
    assert harness.partition.append_records([Record(0, NOW_MS, b"k", b"1"), Record(0, NOW_MS, b"l", b"2")]) == 2
    assert harness.partition.append_records([Record(0, NOW_MS, b"k", None)]) == 3
    assert harness.fetch(0) == [0, 2]


def test_an_older_leader_epoch_is_fenced_and_a_newer_one_unknown() -> None:
    harness = PartitionHarness()
    assert harness.partition.check_leader_epoch(-1) is None
    assert harness.partition.check_leader_epoch(3) is None
    assert error_name(harness.partition.check_leader_epoch(2)) == "FENCED_LEADER_EPOCH"
    assert error_name(harness.partition.check_leader_epoch(4)) == "UNKNOWN_LEADER_EPOCH"


def test_a_reader_with_another_leader_epoch_learns_ours_instead_of_getting_records() -> None:
    harness = PartitionHarness()
    harness.append()
    for epoch, error in ((2, ErrorCode.FENCED_LEADER_EPOCH), (4, ErrorCode.UNKNOWN_LEADER_EPOCH)):
        outcome = harness.partition.read(ReadRequest(0, 1000, current_leader_epoch=epoch))
        assert outcome == LeaderEpochMismatch(error, LeaderEpoch(3))
    assert isinstance(harness.partition.read(ReadRequest(0, 1000, current_leader_epoch=3)), ReadResult)


def test_a_reader_that_is_ahead_of_its_last_epoch_learns_where_that_epoch_ended() -> None:
    harness = PartitionHarness()
    harness.append(batch(b"a", b"b"))
    harness.lead(LeaderEpoch(5))
    harness.append()
    assert harness.partition.read(ReadRequest(3, 1000, last_fetched_epoch=3)) == Divergence(3, 2)
    assert harness.partition.read(ReadRequest(3, 1000, last_fetched_epoch=4)) == Divergence(3, 2)
    assert isinstance(harness.partition.read(ReadRequest(2, 1000, last_fetched_epoch=3)), ReadResult)


def test_a_read_says_whether_it_ends_in_a_segment_that_never_grows() -> None:
    harness = PartitionHarness()
    harness.append()
    harness.partition.log.roll(NOW_MS)
    harness.append()
    sealed, active = (harness.partition.read(ReadRequest(offset, 1000)) for offset in (0, 1))
    assert isinstance(sealed, ReadResult) and sealed.ends_in_sealed_segment
    assert isinstance(active, ReadResult) and not active.ends_in_sealed_segment


def test_a_leaders_epoch_is_known_before_its_first_append() -> None:
    harness = PartitionHarness()
    assert harness.partition.log.epochs.end_offset_for(3) == (3, 0)
    harness.append()
    assert harness.partition.log.epochs.end_offset_for(3) == (3, 1)


def test_a_new_leader_epoch_begins_at_the_log_end() -> None:
    harness = PartitionHarness()
    harness.append(batch(b"a", b"b"))
    harness.lead(LeaderEpoch(5))
    harness.append()
    assert harness.partition.log.epochs.end_offset_for(3) == (3, 2)
    assert harness.headers(2)[0].leader_epoch == 5


def test_a_duplicate_succeeds_with_its_first_offset_and_is_appended_once() -> None:
    harness = PartitionHarness()
    harness.append(batch(b"a", producer=7, sequence=0))
    harness.append(batch(b"b", producer=7, sequence=1))
    again = harness.append(batch(b"a", producer=7, sequence=0))
    assert offsets_of(again) == (0, 1)
    assert harness.partition.log.end_offset == 2


@pytest.mark.parametrize("clean", [True, False])
def test_a_retry_after_a_restart_is_still_a_duplicate(clean: bool) -> None:
    harness = PartitionHarness({"segment.bytes": "1048576"})
    for sequence in range(4):
        harness.append(batch(producer=7, sequence=sequence))
    harness.partition.log.roll(NOW_MS)  # a snapshot here, and more batches after it
    harness.append(batch(producer=7, sequence=4))
    if clean:
        harness.partition.log.close()
    else:
        assert isinstance(harness.disk, MemoryDisk)
        harness.disk.crash("kill")
    harness.open(clean=clean)
    assert offsets_of(harness.append(batch(producer=7, sequence=0))) == (0, 1)
    assert offsets_of(harness.append(batch(producer=7, sequence=4))) == (4, 5)
    assert offsets_of(harness.append(batch(producer=7, sequence=5))) == (5, 6)
    assert error_name(harness.append(batch(producer=7, sequence=9))) == "OUT_OF_ORDER_SEQUENCE_NUMBER"


def test_a_truncated_batch_is_not_a_duplicate() -> None:
    """The batch is not in the log, so answering `duplicate` would lose the retry."""
    harness = PartitionHarness()
    harness.append(batch(b"a", producer=7, sequence=0))
    harness.append(batch(b"b", producer=7, sequence=1))
    harness.partition.log.truncate_to(1)
    assert offsets_of(harness.append(batch(b"b", producer=7, sequence=1))) == (1, 2)
    assert harness.fetch(0) == [0, 1]


def test_a_refused_batch_leaves_no_trace_in_the_producers_state() -> None:
    harness = PartitionHarness({"max.message.bytes": "200"})
    assert error_name(harness.append(batch(b"x" * 500, producer=7, sequence=0))) == "MESSAGE_TOO_LARGE"
    assert offsets_of(harness.append(batch(b"x", producer=7, sequence=0))) == (0, 1)


def test_deleted_records_are_below_the_start_and_out_of_range() -> None:
    harness = PartitionHarness()
    for _ in range(3):
        harness.append()
    assert harness.partition.delete_records(2) == 2
    assert harness.partition.log_start_offset == 2
    assert error_name(harness.partition.read(ReadRequest(1, 10))) == "OFFSET_OUT_OF_RANGE"
    assert harness.partition.delete_records(1) == 2  # the log start never moves back
    assert harness.partition.delete_records(-1) == 3


def test_records_that_are_not_committed_cannot_be_deleted() -> None:
    harness = PartitionHarness(DURABLE)
    harness.append()
    assert error_name(harness.partition.delete_records(1)) == "OFFSET_OUT_OF_RANGE"
    assert error_name(PartitionHarness().partition.delete_records(-2)) == "OFFSET_OUT_OF_RANGE"
    harness.sync()
    assert harness.partition.delete_records(1) == 1


def test_a_batch_with_an_inconsistent_header_is_not_appended() -> None:
    harness = PartitionHarness()
    bad = batch(b"a", b"b")
    struct.pack_into(">i", bad, 57, 5)
    assert error_name(harness.append(with_valid_crc(bad))) == "INVALID_RECORD"
    assert harness.partition.log.end_offset == 0
