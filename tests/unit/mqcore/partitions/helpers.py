"""Helpers for tests of partitions: batches like those of producers, and a partition whose syncs the test runs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from uuid import UUID

from mqcore.disk.memory import MemoryDisk
from mqcore.disk.port import Disk
from mqcore.identity import BrokerId, LeaderEpoch, Millis, TopicPartition
from mqcore.log.errors import LogFailed
from mqcore.log.log import Log
from mqcore.log.topic_config import LogConfig
from mqcore.partitions.appender import Appended
from mqcore.partitions.partition import Partition
from mqcore.partitions.producers import Producers
from mqcore.partitions.reads import ReadRequest, ReadResult
from mqcore.partitions.roles import Membership
from mqcore.partitions.terms import only_replica
from mqcore.wire.batches import BatchHeader, read_header, read_headers
from mqcore.wire.errors import Refusal
from mqcore.wire.records import Record, build_batch

NAME = TopicPartition("orders", 0)
ME = BrokerId(1)
TOPIC_ID = UUID(int=7)
NOW_MS = 1_700_000_000_000
DURABLE = {"flush.messages": "1"}


def batch(
    *values: bytes | None,
    key: bytes | None = b"k",
    producer: int = -1,
    epoch: int = 0,
    sequence: int = 0,
    codec: int = 0,
    timestamp: int = NOW_MS,
) -> memoryview:
    """A batch as a client sends it: base offset 0, no leader epoch."""
    records = [Record(index, timestamp, key, value) for index, value in enumerate(values or (b"v",))]
    idempotent = producer >= 0
    return memoryview(
        build_batch(
            records,
            codec=codec,
            producer_id=producer,
            producer_epoch=epoch if idempotent else -1,
            base_sequence=sequence if idempotent else -1,
        )
    )


def header(producer: int, epoch: int, sequence: int, count: int = 1, offset: int = 0) -> BatchHeader:
    """The header of an idempotent batch of `count` records at `offset`."""
    return BatchHeader(offset, 100, 0, 2, 0, 0, count - 1, 5, 5, producer, epoch, sequence, count)


def lead_alone(partition: Partition, leader_epoch: LeaderEpoch) -> None:
    min_isr = partition.log.config.min_insync_replicas
    partition.lead(only_replica(ME, leader_epoch, min_isr), Membership(ME), Millis(0))


class PartitionHarness:
    """One partition on a disk in memory. Requested syncs run when a test calls `sync`."""

    def __init__(self, settings: Mapping[str, str] | None = None, disk: Disk | None = None) -> None:
        self.disk = disk or MemoryDisk()
        self.settings = dict(settings or {})
        self.requested: list[Partition] = []
        self.partition = self.open()

    def open(self, *, clean: bool = False) -> Partition:
        producers = Producers()
        log = Log.open(
            self.disk,
            str(NAME),
            LogConfig.from_settings(self.settings),
            now_ms=NOW_MS,
            clean=clean,
            recovery_point=0,
            observer=producers,
        )
        if log.config.flush_messages == 1 and log.flushed_offset < log.end_offset:
            log.sync()  # as `HostedPartitions` does
        self.partition = Partition(NAME, TOPIC_ID, log, producers, self.requested.append)
        self.lead(LeaderEpoch(3))
        return self.partition

    def lead(self, leader_epoch: LeaderEpoch) -> None:
        """Lead as the only replica."""
        lead_alone(self.partition, leader_epoch)

    def sync(self) -> None:
        """Run the requested syncs as the flusher would."""
        while self.requested:
            partition = self.requested.pop()
            try:
                partition.log.sync()
            except LogFailed as fault:
                partition.go_offline(str(fault))
            else:
                partition.on_synced()

    def append(self, data: memoryview | None = None, now_ms: int = NOW_MS) -> Appended | Refusal:
        return self.partition.append(batch() if data is None else data, now_ms)

    def fetch(self, offset: int, max_bytes: int = 1 << 20) -> list[int]:
        """The base offsets of the batches that a consumer reads."""
        return [found.base_offset for found in self.headers(offset, max_bytes)]

    def headers(self, offset: int, max_bytes: int = 1 << 20) -> list[BatchHeader]:
        fetched = self.partition.read(ReadRequest(offset, max_bytes))
        assert isinstance(fetched, ReadResult), fetched
        return [found for _, found in read_headers(fetched.records.read())] if fetched.records else []


def error_name(outcome: object) -> str:
    """The name of the error. Fails if the outcome is not a refusal."""
    assert isinstance(outcome, Refusal), outcome
    return outcome.error.name


def offsets_of(outcome: object) -> tuple[int, int]:
    """(base offset, end) of an append. Fails if it was refused."""
    assert isinstance(outcome, Appended), outcome
    return outcome.base_offset, outcome.end


def with_byte(data: Sequence[int] | memoryview, at: int, value: int) -> memoryview:
    """A copy of the batch with one byte changed, so that its CRC is wrong."""
    copy = bytearray(data)
    copy[at] = value
    return memoryview(copy)


def with_valid_crc(data: memoryview) -> memoryview:
    """The batch with a CRC that matches its content."""
    import struct

    from crc32c import crc32c

    struct.pack_into(">I", data, 17, crc32c(data[21:]))
    read_header(data)
    return data
