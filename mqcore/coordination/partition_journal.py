"""Shell: the journal of a machine as records of one partition, committed when the high watermark has passed them."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Generic

from mqcore.clock import Clock
from mqcore.coordination.decision import Fact
from mqcore.coordination.journal import JournalFault
from mqcore.identity import Offset
from mqcore.partitions.partition import Partition
from mqcore.wire.batches import read_headers
from mqcore.wire.records import Record, read_records

READ_BYTES = 1 << 20

Encode = Callable[[Fact], tuple[bytes | None, bytes | None] | None]
"""Key and value of a fact's record; None if the fact is not kept."""


class PartitionJournal(Generic[Fact]):
    def __init__(self, partition: Partition, encode: Encode[Fact], clock: Clock) -> None:
        self._partition = partition
        self._encode = encode
        self._clock = clock

    def append(self, facts: Sequence[Fact]) -> Offset:
        kept = [pair for pair in map(self._encode, facts) if pair is not None]
        if not kept:
            return Offset(self._partition.log.end_offset)
        now_ms = self._clock.wall_ms()
        try:
            return self._partition.append_records([Record(0, now_ms, key, value) for key, value in kept])
        except OSError as fault:
            raise JournalFault(f"{self._partition.name}: {fault}") from fault

    def when_committed(self, end: Offset, then: Callable[[JournalFault | None], None]) -> None:
        def committed(fault: Exception | None) -> None:
            then(None if fault is None else JournalFault(str(fault)))

        self._partition.when_committed(end, committed)


def replay(partition: Partition, start: int, end: int) -> Iterator[Record]:
    """All records of [start, end) in order; `OSError` or `BadBatch` if the log cannot be read."""
    position = start
    while position < end:
        found = partition.log.read(position, READ_BYTES, limit=end)
        if found is None:
            return
        data = memoryview(found.read())
        for place, header in read_headers(data):
            if not header.is_control:
                for record in read_records(data[place : place + header.size], header):
                    if record.offset >= position:
                        yield record
            position = header.next_offset
