"""A journal never writes a batch that it could not read back, and reads larger ones of older brokers."""

from __future__ import annotations

import errno
import struct

import pytest

from mqcore.coordination.journal import FactsTooLarge, JournalFault, UnreadableJournal
from mqcore.coordination.partition_journal import PartitionJournal, replay
from mqcore.wire.batches import BadBatch, read_header
from mqcore.wire.records import OWN_BATCH_BYTES_MAX, BatchTooLarge, Record, build_batch, read_records
from tests.unit.mqcore.coordination.virtual import VirtualClock
from tests.unit.mqcore.partitions.helpers import NAME, PartitionHarness


def encode(fact: bytes) -> tuple[bytes | None, bytes | None]:
    return None, fact


def segment_path() -> str:
    return f"{NAME}/{0:020}.log"


def read_back(harness: PartitionHarness, start: int = 0) -> list[bytes | None]:
    return [record.value for record in replay(harness.partition, start, harness.partition.log.end_offset)]


def test_the_largest_batch_that_can_be_written_can_be_read() -> None:
    overhead = len(build_batch([Record(0, 0, None, b"x" * 20_000)])) - 20_000 - 61
    fits = OWN_BATCH_BYTES_MAX - overhead - 2  # two lengths need one more byte each for a larger value
    harness = PartitionHarness()
    harness.partition.append_records([Record(0, 0, None, bytes(fits))])
    (value,) = read_back(harness)
    assert value is not None and len(value) == fits
    with pytest.raises(BatchTooLarge):
        harness.partition.append_records([Record(0, 0, None, bytes(fits + 1))])
    assert harness.partition.log.end_offset == 1


@pytest.mark.parametrize("count", [1, 3])
def test_a_batch_that_no_reader_accepts_is_rejected_before_it_is_written(count: int) -> None:
    harness = PartitionHarness()
    size = harness.disk.size(segment_path())
    records = [Record(0, 0, b"key", bytes(OWN_BATCH_BYTES_MAX // count + 1))] * count
    with pytest.raises(BatchTooLarge):
        harness.partition.append_records(records)
    assert harness.partition.log.end_offset == 0 and harness.disk.size(segment_path()) == size
    assert harness.partition.append_records([Record(0, 0, None, b"small")]) == 1


def test_a_journal_rejects_a_decision_above_its_limit_and_accepts_the_next_one() -> None:
    harness = PartitionHarness()
    journal = PartitionJournal[bytes](harness.partition, encode, VirtualClock(), limit_bytes=1000)
    with pytest.raises(FactsTooLarge, match="1000 bytes"):
        journal.append([b"x" * 400] * 3)
    with pytest.raises(FactsTooLarge):
        journal.append([b"x"] * 500)  # the values fit, but not with their lengths and offsets
    assert harness.partition.log.end_offset == 0
    assert journal.append([b"x" * 400] * 2) == 2


def test_the_limit_of_a_journal_is_capped_by_the_limit_of_readers() -> None:
    journal = PartitionJournal[bytes](PartitionHarness().partition, encode, VirtualClock(), limit_bytes=1 << 40)
    with pytest.raises(FactsTooLarge):
        journal.append([bytes(OWN_BATCH_BYTES_MAX + 1)])


def test_a_batch_above_the_limit_from_an_older_broker_is_read_back() -> None:
    harness = PartitionHarness()
    harness.partition.append_records(
        [Record(0, 0, None, bytes(OWN_BATCH_BYTES_MAX))], limit_bytes=2 * OWN_BATCH_BYTES_MAX
    )
    harness.partition.append_records([Record(0, 0, None, b"next")])
    values = read_back(harness)
    assert [len(value or b"") for value in values] == [OWN_BATCH_BYTES_MAX, 4]


def test_a_full_disk_is_not_reported_as_a_batch_that_is_too_large() -> None:
    harness = PartitionHarness()
    harness.disk.fail("append", errno.ENOSPC)  # type: ignore[attr-defined]
    with pytest.raises(JournalFault) as raised:
        PartitionJournal[bytes](harness.partition, encode, VirtualClock()).append([b"x"])
    assert not isinstance(raised.value, FactsTooLarge)


def test_records_are_replayed_from_the_middle_of_a_batch() -> None:
    harness = PartitionHarness()
    harness.partition.append_records([Record(0, 0, None, b"%d" % number) for number in range(5)])
    harness.partition.append_records([Record(0, 0, None, b"5")])
    assert read_back(harness, start=3) == [b"3", b"4", b"5"]


@pytest.mark.parametrize(
    ("at", "value"),
    [
        (0, struct.pack(">q", -5)),  # a base offset that points backwards
        (8, struct.pack(">i", 1 << 30)),  # a length past the end of the file
        (8, struct.pack(">i", 3)),
        (16, b"\x07"),  # magic
        (23, struct.pack(">i", -9)),  # last offset delta
        (70, b"\xee"),  # in a record
    ],
)
def test_damage_anywhere_in_a_batch_makes_the_journal_unreadable(at: int, value: bytes) -> None:
    harness = PartitionHarness()
    for number in range(3):
        harness.partition.append_records([Record(0, 0, None, b"%d" % number)])
    content = bytearray(harness.disk.read_whole(segment_path()))
    place = read_header(content).size  # the second batch
    content[place + at : place + at + len(value)] = value
    file = harness.disk.open(segment_path())
    file.truncate(0)
    file.append([bytes(content)])
    with pytest.raises(UnreadableJournal):
        read_back(harness)


def test_a_compressed_batch_that_expands_beyond_the_limit_is_rejected() -> None:
    batch = build_batch([Record(0, 0, None, bytes(OWN_BATCH_BYTES_MAX + 1))], codec=1)
    with pytest.raises(BadBatch):
        read_records(batch)
