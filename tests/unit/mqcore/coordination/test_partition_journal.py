"""A journal never writes what a start could not read back, and reads back whatever an older broker has written."""

from __future__ import annotations

import errno
import struct

import pytest

from mqcore.coordination.journal import FactsTooLarge, JournalFault
from mqcore.coordination.partition_journal import UNREADABLE, PartitionJournal, replay
from mqcore.wire.batches import BadBatch, read_header
from mqcore.wire.records import LIMIT_BYTES, BatchTooLarge, Record, build_batch, read_records
from tests.unit.mqcore.coordination.virtual import VirtualClock
from tests.unit.mqcore.partitions.stage import NAME, Stage


def encode(fact: bytes) -> tuple[bytes | None, bytes | None]:
    return None, fact


def segment_path() -> str:
    return f"{NAME}/{0:020}.log"


def read_back(stage: Stage, start: int = 0) -> list[bytes | None]:
    return [record.value for record in replay(stage.partition, start, stage.partition.log.end_offset)]


def test_the_largest_batch_that_may_be_written_can_be_read() -> None:
    overhead = len(build_batch([Record(0, 0, None, b"x" * 20_000)])) - 20_000 - 61
    fits = LIMIT_BYTES - overhead - 2  # the lengths of a larger value take a byte more, twice
    stage = Stage()
    stage.partition.append_records([Record(0, 0, None, bytes(fits))])
    (value,) = read_back(stage)
    assert value is not None and len(value) == fits
    with pytest.raises(BatchTooLarge):
        stage.partition.append_records([Record(0, 0, None, bytes(fits + 1))])
    assert stage.partition.log.end_offset == 1


@pytest.mark.parametrize("count", [1, 3])
def test_what_no_reader_would_take_is_refused_before_anything_is_written(count: int) -> None:
    stage = Stage()
    size = stage.disk.size(segment_path())
    records = [Record(0, 0, b"key", bytes(LIMIT_BYTES // count + 1))] * count
    with pytest.raises(BatchTooLarge):
        stage.partition.append_records(records)
    assert stage.partition.log.end_offset == 0 and stage.disk.size(segment_path()) == size
    assert stage.partition.append_records([Record(0, 0, None, b"small")]) == 1


def test_a_journal_refuses_a_decision_above_its_own_limit_and_takes_the_next_one() -> None:
    stage = Stage()
    journal = PartitionJournal[bytes](stage.partition, encode, VirtualClock(), limit_bytes=1000)
    with pytest.raises(FactsTooLarge, match="1000 bytes"):
        journal.append([b"x" * 400] * 3)
    with pytest.raises(FactsTooLarge):
        journal.append([b"x"] * 500)  # the values fit, their lengths and offsets do not
    assert stage.partition.log.end_offset == 0
    assert journal.append([b"x" * 400] * 2) == 2


def test_a_limit_above_the_readers_is_cut_to_it() -> None:
    journal = PartitionJournal[bytes](Stage().partition, encode, VirtualClock(), limit_bytes=1 << 40)
    with pytest.raises(FactsTooLarge):
        journal.append([bytes(LIMIT_BYTES + 1)])


def test_a_batch_that_an_older_broker_has_written_above_the_limit_is_read_back() -> None:
    stage = Stage()
    stage.partition.append_records([Record(0, 0, None, bytes(LIMIT_BYTES))], limit_bytes=2 * LIMIT_BYTES)
    stage.partition.append_records([Record(0, 0, None, b"next")])
    values = read_back(stage)
    assert [len(value or b"") for value in values] == [LIMIT_BYTES, 4]


def test_a_full_disk_is_not_taken_for_a_batch_that_is_too_large() -> None:
    stage = Stage()
    stage.disk.fail("append", errno.ENOSPC)  # type: ignore[attr-defined]
    with pytest.raises(JournalFault) as raised:
        PartitionJournal[bytes](stage.partition, encode, VirtualClock()).append([b"x"])
    assert not isinstance(raised.value, FactsTooLarge)


def test_records_are_replayed_from_the_middle_of_a_batch() -> None:
    stage = Stage()
    stage.partition.append_records([Record(0, 0, None, b"%d" % number) for number in range(5)])
    stage.partition.append_records([Record(0, 0, None, b"5")])
    assert read_back(stage, start=3) == [b"3", b"4", b"5"]


@pytest.mark.parametrize(
    ("at", "value"),
    [
        (0, struct.pack(">q", -5)),  # a base offset that would lead back
        (8, struct.pack(">i", 1 << 30)),  # a length past the end of the file
        (8, struct.pack(">i", 3)),
        (16, b"\x07"),  # magic
        (23, struct.pack(">i", -9)),  # last offset delta
        (70, b"\xee"),  # in a record
    ],
)
def test_damage_anywhere_in_a_batch_ends_the_replay_with_a_fault(at: int, value: bytes) -> None:
    stage = Stage()
    for number in range(3):
        stage.partition.append_records([Record(0, 0, None, b"%d" % number)])
    content = bytearray(stage.disk.read_whole(segment_path()))
    place = read_header(content).size  # the second batch
    content[place + at : place + at + len(value)] = value
    file = stage.disk.open(segment_path())
    file.truncate(0)
    file.append([bytes(content)])
    with pytest.raises(UNREADABLE):
        read_back(stage)


def test_a_compressed_batch_expands_to_no_more_than_the_limit() -> None:
    batch = build_batch([Record(0, 0, None, bytes(LIMIT_BYTES + 1))], codec=1)
    with pytest.raises(BadBatch):
        read_records(batch)
