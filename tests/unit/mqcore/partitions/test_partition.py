"""One copy of one partition: what is appended, when it is committed, who may see it; and bad disks."""

from __future__ import annotations

import errno
import struct

import pytest

from mqcore.disk.memory import MemoryDisk
from mqcore.identity import LeaderEpoch, Offset
from mqcore.log.config import LogConfig
from mqcore.partitions.partition import Fetched
from mqcore.wire.batches import LOG_APPEND_TIME, check_crc
from mqcore.wire.records import Record
from tests.unit.mqcore.partitions.stage import (
    NOW_MS,
    Stage,
    batch,
    listen,
    placed,
    refused,
    resealed,
)

DURABLE = {"flush.messages": "1"}


# ── appending and reading ────────────────────────────────────────────────────────────────────────


def test_batches_get_the_next_offsets_and_the_leaders_epoch() -> None:
    stage = Stage()
    assert placed(stage.append(batch(b"a", b"b"))) == (0, 2)
    assert placed(stage.append(batch(b"c"))) == (2, 3)
    assert [(found.base_offset, found.leader_epoch) for found in stage.headers(0)] == [(0, 3), (2, 3)]
    assert stage.partition.high_watermark == 3


def test_a_fetch_inside_a_batch_returns_the_whole_batch() -> None:
    stage = Stage()
    stage.append(batch(b"a", b"b", b"c"))
    assert stage.fetch(2) == [0]


def test_a_first_batch_comes_whole_even_if_it_is_larger_than_asked_for() -> None:
    stage = Stage()
    stage.append(batch(b"x" * 1000))
    assert stage.fetch(0, max_bytes=1) == [0]
    small = stage.partition.fetch(0, 1, at_least_one=False, committed_only=False)
    assert isinstance(small, Fetched) and small.records is None


@pytest.mark.parametrize("offset", [-1, 4, 1 << 60])
def test_an_offset_outside_of_the_log_is_out_of_range(offset: int) -> None:
    stage = Stage()
    stage.append(batch(b"a", b"b", b"c"))
    outcome = stage.partition.fetch(offset, 1000, at_least_one=True, committed_only=False)
    assert refused(outcome) == "OFFSET_OUT_OF_RANGE"


def test_a_fetch_at_the_end_is_empty_and_not_out_of_range() -> None:
    stage = Stage()
    stage.append()
    assert stage.fetch(1) == []


def test_append_time_is_the_brokers_and_the_crc_fits_it() -> None:
    stage = Stage({"message.timestamp.type": "LogAppendTime"})
    outcome = stage.append(batch(timestamp=5), now_ms=NOW_MS + 9)
    assert placed(outcome) == (0, 1)
    fetched = stage.partition.fetch(0, 1000, at_least_one=True, committed_only=False)
    assert isinstance(fetched, Fetched) and fetched.records is not None
    (found,) = stage.headers(0)
    assert found.attributes & LOG_APPEND_TIME and found.max_timestamp == NOW_MS + 9
    check_crc(fetched.records.read(), found)


def test_internal_records_get_offsets_one_after_the_other() -> None:
    stage = Stage()
    assert stage.partition.append_records([Record(0, NOW_MS, b"k", b"1"), Record(0, NOW_MS, b"l", b"2")]) == 2
    assert stage.partition.append_records([Record(0, NOW_MS, b"k", None)]) == 3
    assert stage.fetch(0) == [0, 2]


def test_epochs_of_readers_are_fenced_or_unknown() -> None:
    stage = Stage()
    assert stage.partition.check_epoch(-1) is None
    assert stage.partition.check_epoch(3) is None
    assert refused(stage.partition.check_epoch(2)) == "FENCED_LEADER_EPOCH"
    assert refused(stage.partition.check_epoch(4)) == "UNKNOWN_LEADER_EPOCH"


def test_a_new_epoch_begins_at_the_end() -> None:
    stage = Stage()
    stage.append(batch(b"a", b"b"))
    stage.partition.lead(LeaderEpoch(5))
    stage.append()
    assert stage.partition.log.epochs.end_offset_for(3) == (3, 2)
    assert stage.headers(2)[0].leader_epoch == 5


# ── idempotence, through the log ─────────────────────────────────────────────────────────────────


def test_a_duplicate_succeeds_with_its_first_offset_and_is_appended_once() -> None:
    stage = Stage()
    stage.append(batch(b"a", producer=7, sequence=0))
    stage.append(batch(b"b", producer=7, sequence=1))
    again = stage.append(batch(b"a", producer=7, sequence=0))
    assert placed(again) == (0, 1)
    assert stage.partition.log.end_offset == 2


@pytest.mark.parametrize("clean", [True, False])
def test_a_retry_after_a_restart_is_still_a_duplicate(clean: bool) -> None:
    stage = Stage({"segment.bytes": "1048576"})
    for sequence in range(4):
        stage.append(batch(producer=7, sequence=sequence))
    stage.partition.log.roll(NOW_MS)  # a snapshot here, a tail behind it
    stage.append(batch(producer=7, sequence=4))
    if clean:
        stage.partition.log.close()
    else:
        assert isinstance(stage.disk, MemoryDisk)
        stage.disk.crash("kill")
    stage.open(clean=clean)
    assert placed(stage.append(batch(producer=7, sequence=0))) == (0, 1)
    assert placed(stage.append(batch(producer=7, sequence=4))) == (4, 5)
    assert placed(stage.append(batch(producer=7, sequence=5))) == (5, 6)
    assert refused(stage.append(batch(producer=7, sequence=9))) == "OUT_OF_ORDER_SEQUENCE_NUMBER"


def test_what_was_truncated_is_no_duplicate() -> None:
    """S8: the batch never came to be; 'duplicate' would lose the retry."""
    stage = Stage()
    stage.append(batch(b"a", producer=7, sequence=0))
    stage.append(batch(b"b", producer=7, sequence=1))
    stage.partition.log.truncate_to(1)
    assert placed(stage.append(batch(b"b", producer=7, sequence=1))) == (1, 2)
    assert stage.fetch(0) == [0, 1]


def test_a_refused_batch_leaves_no_trace_in_the_producers_state() -> None:
    stage = Stage({"max.message.bytes": "200"})
    assert refused(stage.append(batch(b"x" * 500, producer=7, sequence=0))) == "MESSAGE_TOO_LARGE"
    assert placed(stage.append(batch(b"x", producer=7, sequence=0))) == (0, 1)


# ── the commit ───────────────────────────────────────────────────────────────────────────────────


def test_nothing_is_visible_or_committed_before_the_sync_where_flush_messages_is_one() -> None:
    stage = Stage(DURABLE)
    told: list[Exception | None] = []
    _, end = placed(stage.append())
    stage.partition.when_committed(Offset(end), listen(told))
    assert stage.partition.high_watermark == 0 and stage.fetch(0) == [] and not told
    stage.sync()
    assert stage.partition.high_watermark == 1 and stage.fetch(0) == [0] and told == [None]


def test_without_flush_messages_it_is_visible_at_once() -> None:
    """The negative control of the test above."""
    stage = Stage()
    told: list[Exception | None] = []
    _, end = placed(stage.append())
    stage.partition.when_committed(Offset(end), listen(told))
    assert stage.fetch(0) == [0] and told == [None] and not stage.requested


def test_what_was_acknowledged_with_flush_messages_one_survives_a_power_loss() -> None:
    for seed in range(20):
        stage = Stage(DURABLE, MemoryDisk(seed))
        stage.append(batch(b"kept"))
        stage.sync()
        stage.append(batch(b"never acknowledged"))
        assert isinstance(stage.disk, MemoryDisk)
        stage.disk.crash("power")
        assert stage.open().high_watermark >= 1, seed


def test_a_sync_is_asked_for_after_so_many_records_as_flush_messages_says() -> None:
    stage = Stage({"flush.messages": "3"})
    stage.append(batch(b"a", b"b"))
    assert not stage.requested
    stage.append()
    assert stage.requested


def test_a_duplicate_that_is_not_committed_yet_waits_like_the_first() -> None:
    stage = Stage(DURABLE)
    told: list[Exception | None] = []
    stage.append(batch(producer=7, sequence=0))
    stage.append(batch(producer=7, sequence=1))
    _, end = placed(stage.append(batch(producer=7, sequence=0)))
    stage.partition.when_committed(Offset(end), listen(told))
    assert not told
    stage.sync()
    assert told == [None]


def test_a_topic_that_becomes_durable_later_takes_nothing_back() -> None:
    stage = Stage()
    stage.append()
    stage.partition.reconfigure(LogConfig.from_settings(DURABLE))
    assert stage.fetch(0) == [0]
    stage.append()
    assert stage.fetch(1) == []
    stage.sync()
    assert stage.fetch(1) == [1]


def test_a_topic_that_need_not_be_durable_any_more_releases_who_waits() -> None:
    stage = Stage(DURABLE)
    told: list[Exception | None] = []
    _, end = placed(stage.append())
    stage.partition.when_committed(Offset(end), listen(told))
    stage.partition.reconfigure(LogConfig())
    assert told == [None]


# ── a bad disk ───────────────────────────────────────────────────────────────────────────────────


def test_a_full_disk_refuses_produces_serves_fetches_and_recovers_by_itself() -> None:
    disk = MemoryDisk()
    stage = Stage(disk=disk)
    stage.append(batch(b"a"))
    disk.capacity = 0
    assert refused(stage.append(batch(b"b" * 100))) == "KAFKA_STORAGE_ERROR"
    with pytest.raises(OSError, match=r"full|space|written"):
        stage.partition.append_records([Record(0, NOW_MS, b"k", b"v" * 100)])
    assert stage.fetch(0) == [0]
    assert stage.partition.offline is None
    disk.capacity = None
    assert placed(stage.append(batch(b"b" * 100))) == (1, 2)
    assert stage.fetch(0) == [0, 1]


def test_an_idempotent_batch_refused_by_a_full_disk_may_be_sent_again() -> None:
    disk = MemoryDisk()
    stage = Stage(disk=disk)
    disk.capacity = 0
    assert refused(stage.append(batch(b"b" * 100, producer=7, sequence=0))) == "KAFKA_STORAGE_ERROR"
    disk.capacity = None
    assert placed(stage.append(batch(b"b" * 100, producer=7, sequence=0))) == (0, 1)


def test_a_failed_write_takes_the_partition_offline_and_tells_everybody_who_waits() -> None:
    disk = MemoryDisk()
    stage = Stage(DURABLE, disk)
    told: list[Exception | None] = []
    woken: list[bool] = []
    stage.partition.watchers.add("fetch", lambda: woken.append(True))
    _, end = placed(stage.append())
    stage.partition.when_committed(Offset(end), listen(told))
    disk.fail("append", errno.EIO)
    assert refused(stage.append()) == "KAFKA_STORAGE_ERROR"
    assert stage.partition.offline is not None and woken
    assert len(told) == 1 and isinstance(told[0], OSError)
    assert refused(stage.append()) == "KAFKA_STORAGE_ERROR"
    assert refused(stage.partition.fetch(0, 10, at_least_one=True, committed_only=False)) == "KAFKA_STORAGE_ERROR"
    assert refused(stage.partition.delete_records(0)) == "KAFKA_STORAGE_ERROR"
    stage.partition.when_committed(Offset(end), listen(told))
    assert isinstance(told[1], OSError)


def test_a_failed_sync_acknowledges_nothing_and_is_not_tried_again() -> None:
    disk = MemoryDisk()
    stage = Stage(DURABLE, disk)
    told: list[Exception | None] = []
    _, end = placed(stage.append())
    stage.partition.when_committed(Offset(end), listen(told))
    disk.fail("sync", errno.EIO)
    stage.sync()
    assert isinstance(told[0], OSError) and stage.partition.high_watermark == 0
    stage.requested.append(stage.partition)
    stage.sync()  # the disk would not fail a second time
    assert stage.partition.high_watermark == 0


def test_a_log_that_turns_out_corrupt_when_read_goes_offline() -> None:
    stage = Stage()
    stage.append(batch(b"a" * 100))
    stage.append(batch(b"b" * 100))
    segment = stage.partition.log.segments.active
    content = bytearray(segment.file.read(0, segment.size))
    struct.pack_into(">i", content, 8, 3)  # a length no batch can have
    segment.file.truncate(0)
    segment.file.append([content])
    outcome = stage.partition.fetch(1, 150, at_least_one=True, committed_only=False)
    assert refused(outcome) == "KAFKA_STORAGE_ERROR"
    assert stage.partition.offline is not None


# ── deleting records ─────────────────────────────────────────────────────────────────────────────


def test_deleted_records_are_below_the_start_and_out_of_range() -> None:
    stage = Stage()
    for _ in range(3):
        stage.append()
    assert stage.partition.delete_records(2) == 2
    assert stage.partition.log_start_offset == 2
    assert refused(stage.partition.fetch(1, 10, at_least_one=True, committed_only=False)) == "OFFSET_OUT_OF_RANGE"
    assert stage.partition.delete_records(1) == 2  # never back
    assert stage.partition.delete_records(-1) == 3


def test_records_that_are_not_committed_cannot_be_deleted() -> None:
    stage = Stage(DURABLE)
    stage.append()
    assert refused(stage.partition.delete_records(1)) == "OFFSET_OUT_OF_RANGE"
    assert refused(Stage().partition.delete_records(-2)) == "OFFSET_OUT_OF_RANGE"
    stage.sync()
    assert stage.partition.delete_records(1) == 1


def test_a_batch_that_only_looks_right_is_not_stamped_into_the_log() -> None:
    stage = Stage()
    bad = batch(b"a", b"b")
    struct.pack_into(">i", bad, 57, 5)
    assert refused(stage.append(resealed(bad))) == "INVALID_RECORD"
    assert stage.partition.log.end_offset == 0
