"""Shell: the journal of a machine as records of one partition, committed when the high watermark has passed them."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Generic, Protocol

from mqcore.coordination.decision import Fact
from mqcore.coordination.journal import FactsTooLarge, JournalFault, LeadershipLost, UnreadableJournal
from mqcore.host import Clock
from mqcore.identity import Offset, TopicPartition
from mqcore.log.errors import LogFault
from mqcore.log.log import Log
from mqcore.partitions.waiting_requests import NotLeading, OnCommit, Watchers
from mqcore.wire.batches import BadBatch, check_crc, read_headers
from mqcore.wire.records import OWN_BATCH_BYTES_MAX, BatchTooLarge, Record, read_records

READ_BYTES_MAX = 1 << 20

Encode = Callable[[Fact], tuple[bytes | None, bytes | None] | None]
"""Key and value of a fact's record; None if the fact is not kept."""


class ReplicatedLog(Protocol):
    """What a journal needs of its partition. Both a `Partition` and the `Quorum` of the metadata log are one."""

    @property
    def name(self) -> TopicPartition: ...

    @property
    def log(self) -> Log: ...

    @property
    def high_watermark(self) -> Offset: ...

    @property
    def offline_reason(self) -> str | None: ...

    @property
    def watchers(self) -> Watchers: ...

    def append_records(self, records: Sequence[Record], limit_bytes: int = ...) -> Offset: ...

    def when_committed(self, end: Offset, on_commit: OnCommit) -> None: ...

    def go_offline(self, reason: str) -> object: ...


class PartitionJournal(Generic[Fact]):
    """`limit_bytes` bounds the records of one batch. It cannot exceed the limit of what readers accept."""

    def __init__(
        self, partition: ReplicatedLog, encode: Encode[Fact], clock: Clock, limit_bytes: int = OWN_BATCH_BYTES_MAX
    ) -> None:
        self._partition = partition
        self._encode = encode
        self._clock = clock
        self._limit_bytes = min(limit_bytes, OWN_BATCH_BYTES_MAX)

    def append(self, facts: Sequence[Fact]) -> Offset:
        records = self._encode_all(facts)
        if not records:
            return Offset(self._partition.log.end_offset)
        try:
            return self._partition.append_records(records, self._limit_bytes)
        except BatchTooLarge as fault:
            raise FactsTooLarge(str(fault)) from fault
        except NotLeading as fault:
            raise LeadershipLost(f"{self._partition.name}: {fault}") from fault
        except OSError as fault:
            raise JournalFault(f"{self._partition.name}: {fault}") from fault

    def _encode_all(self, facts: Sequence[Fact]) -> list[Record]:
        """The records of the kept facts. Stops at the limit, so an oversized decision uses no more memory than that."""
        now_ms = self._clock.wall_ms()
        records: list[Record] = []
        size = 0
        for fact in facts:
            pair = self._encode(fact)
            if pair is not None:
                key, value = pair
                size += len(key or b"") + len(value or b"")
                if size > self._limit_bytes:
                    raise FactsTooLarge(f"the records take more than {self._limit_bytes} bytes, the limit of one batch")
                records.append(Record(0, now_ms, key, value))
        return records

    def when_committed(self, end: Offset, on_commit: OnCommit) -> None:
        self._partition.when_committed(end, on_commit)


def replay(partition: ReplicatedLog, start: int, end: int) -> Iterator[Record]:
    """All records of [start, end) in order. Raises `UnreadableJournal` if the disk fails or the bytes are damaged.

    An uncompressed batch above the writer's limit is accepted: an older broker wrote it, and its bytes are already in
    memory.
    """
    try:
        yield from _read_range(partition, start, end)
    except (OSError, BadBatch, LogFault) as fault:
        raise UnreadableJournal(f"{partition.name} cannot be read: {fault}") from fault


def _read_range(partition: ReplicatedLog, start: int, end: int) -> Iterator[Record]:
    position = start
    while position < end:
        found = partition.log.read(position, READ_BYTES_MAX, limit=end)
        if found is None:
            return
        data = memoryview(found.read())
        next_position = position
        for place, header in read_headers(data):
            check_crc(data, header, place)
            if not next_position < header.next_offset <= end:  # the CRC does not cover the base offset
                raise BadBatch(f"found a batch with base offset {header.base_offset} at offset {next_position}")
            if not header.is_control:
                batch = data[place : place + header.size]
                for record in read_records(batch, header, limit_bytes=max(OWN_BATCH_BYTES_MAX, header.size)):
                    if record.offset >= start:
                        yield record
            next_position = header.next_offset
        if next_position <= position:  # a damaged length or offset; without this check the loop would never end
            raise BadBatch(f"no complete batch at offset {position}")
        position = next_position
