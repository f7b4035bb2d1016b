"""Which record is where in a simulated log, and how a broker of the simulation opens its logs."""

from __future__ import annotations

import contextlib
from typing import Final, NamedTuple

from mqcore.disk.memory import MemoryDisk
from mqcore.identity import TopicPartition
from mqcore.log.doctor import cut_partition
from mqcore.log.errors import CorruptLog
from mqcore.log.examination import open_segments
from mqcore.log.log import Log
from mqcore.log.topic_config import LogConfig
from mqcore.log.validity import find_first_invalid
from mqcore.partitions.producers import Producers
from mqcore.wire.batches import BatchHeader, read_headers

WALL_MS: Final = 1_700_000_000_000
READ_BYTES_MAX: Final = 1 << 20
LAZY: Final = 1 << 62  # records between two syncs


class RecordId(NamedTuple):
    """Which record is at an offset: the leader epoch that wrote it, and a number that no other record has."""

    leader_epoch: int
    number: int


GONE: Final = RecordId(-1, -1)
"""Below the log start."""


def record_ids(data: bytes) -> list[RecordId]:
    return [found for _, header in read_headers(data) for found in ids_of(header)]


def ids_of(header: BatchHeader) -> list[RecordId]:
    """A record's number is its timestamp: the clients of the simulation never use one twice."""
    first = header.base_timestamp - WALL_MS
    return [RecordId(header.leader_epoch, first + delta) for delta in range(header.records_count)]


def read_content(log: Log) -> list[RecordId]:
    """The record at each offset, read from the files. The first batch may begin below the log start."""
    found = [GONE] * log.start_offset
    while len(found) < log.end_offset:
        piece = log.read(len(found), READ_BYTES_MAX, limit=log.end_offset)
        assert piece is not None
        data = piece.read()
        _, first = next(iter(read_headers(data)))
        found += record_ids(data)[len(found) - first.base_offset :]
    return found


def open_or_cut(disk: MemoryDisk, name: TopicPartition, producers: Producers, *, durable_only: bool) -> Log:
    """Open the log. If a power loss has torn several unsynced batches, cut them, as an operator would."""
    with contextlib.suppress(CorruptLog):
        return _open(disk, name, producers, durable_only)
    items = open_segments(disk, str(name))
    invalid = find_first_invalid(items).first_invalid
    assert invalid is not None
    base = items[invalid.segment_index].base_offset
    cut_partition(disk, name, base, invalid.position, invalid.next_offset)
    return _open(disk, name, producers, durable_only)


def _open(disk: MemoryDisk, name: TopicPartition, producers: Producers, durable_only: bool) -> Log:
    config = LogConfig(segment_bytes=4096, index_interval_bytes=200, flush_messages=1 if durable_only else LAZY)
    return Log.open(disk, str(name), config, now_ms=WALL_MS, clean=False, recovery_point=0, observer=producers)
