"""Shell: the journal of a machine as records of one partition, committed when the high watermark has passed them."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Generic

from mqcore.clock import Clock
from mqcore.coordination.decision import Fact
from mqcore.coordination.journal import FactsTooLarge, JournalFault
from mqcore.identity import Offset
from mqcore.log.errors import CorruptLog, LogFailed
from mqcore.partitions.partition import Partition
from mqcore.wire.batches import BadBatch, check_crc, read_headers
from mqcore.wire.records import LIMIT_BYTES, BatchTooLarge, Record, read_records

READ_BYTES = 1 << 20

UNREADABLE = (OSError, BadBatch, CorruptLog, LogFailed)
"""What `replay` raises for a log that cannot be read: the disk failed, or its bytes are damaged."""

Encode = Callable[[Fact], tuple[bytes | None, bytes | None] | None]
"""Key and value of a fact's record; None if the fact is not kept."""


class PartitionJournal(Generic[Fact]):
    """`limit_bytes` bounds the records of one batch; more than the reader's own limit is never written."""

    def __init__(
        self, partition: Partition, encode: Encode[Fact], clock: Clock, limit_bytes: int = LIMIT_BYTES
    ) -> None:
        self._partition = partition
        self._encode = encode
        self._clock = clock
        self._limit_bytes = min(limit_bytes, LIMIT_BYTES)

    def append(self, facts: Sequence[Fact]) -> Offset:
        records = self._records(facts)
        if not records:
            return Offset(self._partition.log.end_offset)
        try:
            return self._partition.append_records(records, self._limit_bytes)
        except BatchTooLarge as fault:
            raise FactsTooLarge(str(fault)) from fault
        except OSError as fault:
            raise JournalFault(f"{self._partition.name}: {fault}") from fault

    def _records(self, facts: Sequence[Fact]) -> list[Record]:
        """The facts that are kept. Counts while it encodes, so that an oversized decision takes no more memory."""
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

    def when_committed(self, end: Offset, then: Callable[[JournalFault | None], None]) -> None:
        def committed(fault: Exception | None) -> None:
            then(None if fault is None else JournalFault(str(fault)))

        self._partition.when_committed(end, committed)


def replay(partition: Partition, start: int, end: int) -> Iterator[Record]:
    """All records of [start, end) in order; one of `UNREADABLE` if the log cannot be read.

    A batch above the writer's limit is read all the same if it is not compressed: an older broker wrote it, and its
    bytes are in memory already.
    """
    position = start
    while position < end:
        found = partition.log.read(position, READ_BYTES, limit=end)
        if found is None:
            return
        data = memoryview(found.read())
        reached = position
        for place, header in read_headers(data):
            check_crc(data, header, place)
            if not reached < header.next_offset <= end:  # the CRC does not cover the base offset
                raise BadBatch(f"a batch of offset {header.base_offset} stands at offset {reached}")
            if not header.is_control:
                batch = data[place : place + header.size]
                for record in read_records(batch, header, limit_bytes=max(LIMIT_BYTES, header.size)):
                    if record.offset >= start:
                        yield record
            reached = header.next_offset
        if reached <= position:  # a damaged length or offset: reading on would never end
            raise BadBatch(f"no whole batch at offset {position}")
        position = reached
