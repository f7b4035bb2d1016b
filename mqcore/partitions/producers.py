"""Machine: idempotence of one partition — what each producer wrote last, and what may follow.

`check` decides and changes nothing; `observe` applies a batch that is in the log, on append as on replay.
A producer's last five batches are remembered (the most a client has in flight): one of them again is a
duplicate and succeeds with its first offset. A producer nobody remembers may begin anywhere (its state may
have expired: that must not look like a gap). Source: KIP-98, KIP-360.

The snapshot is Kafka's producer-snapshot format, with one row per remembered batch where Kafka keeps only the
last: Kafka's tools, which keep the last row of each producer, read it alike, and the window survives a restart.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import islice
from typing import NamedTuple
from weakref import WeakSet

from mqcore.wire.batches import BatchHeader
from mqcore.wire.checksum import crc32c
from mqcore.wire.errors import ErrorCode, Refusal

REMEMBERED_BATCHES = 5
MOST_PRODUCERS = 20_000
"""Of one partition: the snapshot of that many takes some 20 ms of everybody's time."""

BROKER_PRODUCERS_MAX = 100_000
"""Of all partitions: 300 bytes each, 450 with five batches."""

_FORGOTTEN_AT_ONCE = 1000
LAST_SEQUENCE = 0x7FFFFFFF

_SNAPSHOT_HEAD = struct.Struct(">hIi")
_SNAPSHOT_ROW = struct.Struct(">qhiqiqiq")
_SNAPSHOT_VERSION = 1
_WRITTEN = struct.Struct(">iiqqq")


class Written(NamedTuple):
    """One batch of a producer that is in the log."""

    base_sequence: int
    last_sequence: int
    base_offset: int
    last_offset: int
    timestamp: int


class Duplicate(NamedTuple):
    """The batch is in the log already, here."""

    base_offset: int
    last_offset: int
    timestamp: int


@dataclass(slots=True)
class Producer:
    """Its batches are packed, because a broker remembers many producers and asks about few."""

    epoch: int
    packed: bytes = b""
    touched: bool = True
    idle_since_ms: int = 0

    @property
    def batches(self) -> tuple[Written, ...]:
        return tuple(map(Written._make, _WRITTEN.iter_unpack(self.packed)))

    @property
    def last(self) -> Written:
        return Written._make(_WRITTEN.unpack_from(self.packed, len(self.packed) - _WRITTEN.size))

    def add(self, written: Written) -> None:
        self.packed = self.packed[-(REMEMBERED_BATCHES - 1) * _WRITTEN.size :] + _WRITTEN.pack(*written)


class ProducerBudget:
    """How many producers all partitions together remember. When there are too many, the partition with the most forgets
    those that have been silent for longest: a client that makes up producers pushes out its own."""

    def __init__(self, limit: int = BROKER_PRODUCERS_MAX) -> None:
        self.limit = limit
        self.count = 0
        self.partitions: WeakSet[Producers] = WeakSet()

    def add(self) -> None:
        self.count += 1
        if self.count > self.limit:
            largest = max(self.partitions, key=len)
            largest.forget(min(_FORGOTTEN_AT_ONCE, len(largest) // 2 + 1))


def sequence_after(sequence: int, records: int) -> int:
    """The sequence number `records` further on; it wraps from 2³¹−1 to 0."""
    return (sequence + records) & LAST_SEQUENCE


class Producers:
    def __init__(self, budget: ProducerBudget | None = None) -> None:
        self._producers: dict[int, Producer] = {}  # least recently written first
        self._budget = budget or ProducerBudget()
        self._budget.partitions.add(self)

    def __len__(self) -> int:
        return len(self._producers)

    def remembered(self) -> Iterator[tuple[int, Producer]]:
        """By producer id, the one that has been silent for longest first."""
        return iter(self._producers.items())

    def check(self, header: BatchHeader) -> Duplicate | Refusal | None:
        """None: the batch may be appended."""
        if header.base_sequence < 0 or header.producer_epoch < 0:
            return Refusal(ErrorCode.INVALID_RECORD, "a producer id needs an epoch and a sequence number")
        producer = self._producers.get(header.producer_id)
        if producer is None:
            return None
        if header.producer_epoch < producer.epoch:
            return Refusal(ErrorCode.INVALID_PRODUCER_EPOCH, f"epoch {producer.epoch} has written since")
        if header.producer_epoch > producer.epoch:
            if header.base_sequence == 0:
                return None
            return Refusal(ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER, "a new epoch begins at sequence 0")
        expected = sequence_after(producer.last.last_sequence, 1)
        if header.base_sequence == expected:
            return None
        last_sequence = sequence_after(header.base_sequence, header.last_offset_delta)
        for written in producer.batches:
            if written.base_sequence == header.base_sequence and written.last_sequence == last_sequence:
                return Duplicate(written.base_offset, written.last_offset, written.timestamp)
        message = f"sequence {header.base_sequence}, expected {expected}"
        return Refusal(ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER, message)

    def observe(self, header: BatchHeader) -> None:
        if header.producer_id < 0 or header.is_control:
            return
        last_sequence = sequence_after(header.base_sequence, header.last_offset_delta)
        written = Written(
            header.base_sequence, last_sequence, header.base_offset, header.last_offset, header.max_timestamp
        )
        self._add(header.producer_id, header.producer_epoch, written)

    def _add(self, producer_id: int, epoch: int, written: Written) -> None:
        producer = self._producers.pop(producer_id, None)
        is_new = producer is None
        if producer is None or producer.epoch != epoch:
            producer = Producer(epoch)
        producer.add(written)
        producer.touched = True
        self._producers[producer_id] = producer
        if is_new:
            if len(self._producers) > MOST_PRODUCERS:
                self.forget(1)
            self._budget.add()

    def forget(self, count: int) -> None:
        """Forget producers, those first that have been silent for longest."""
        for producer_id in list(islice(self._producers, count)):
            self._remove(producer_id)

    def _remove(self, producer_id: int) -> None:
        del self._producers[producer_id]
        self._budget.count -= 1

    def expire(self, now_ms: int, expiration_ms: int) -> None:
        """Forget producers that wrote nothing for so long, by the monotonic clock (a restart begins anew)."""
        gone = []
        for producer_id, producer in self._producers.items():
            if producer.touched:
                producer.touched, producer.idle_since_ms = False, now_ms
            elif now_ms - producer.idle_since_ms >= expiration_ms:
                gone.append(producer_id)
        for producer_id in gone:
            self._remove(producer_id)

    def active(self, now_ms: int, expiration_ms: int) -> frozenset[int]:
        """The producers whose last batch compaction keeps, by the wall clock.

        A restart remembers every producer in the log for another `expiration_ms`, so the age of its last batch counts
        as well: else the log of a broker that restarts daily would keep them all."""
        return frozenset(
            producer_id
            for producer_id, producer in self._producers.items()
            if (timestamp := producer.last.timestamp) < 0 or now_ms - timestamp < expiration_ms
        )

    def clear(self) -> None:
        self._budget.count -= len(self._producers)
        self._producers.clear()

    def snapshot(self) -> bytes:
        rows = bytearray()
        count = 0
        for producer_id, producer in self._producers.items():
            for written in producer.batches:
                delta = written.last_offset - written.base_offset
                rows += _SNAPSHOT_ROW.pack(
                    producer_id, producer.epoch, written.last_sequence, written.last_offset, delta, written.timestamp,
                    -1, -1,
                )  # fmt: skip
                count += 1
        body = count.to_bytes(4, "big") + rows
        return _SNAPSHOT_VERSION.to_bytes(2, "big") + crc32c(body).to_bytes(4, "big") + body

    def restore(self, snapshot: bytes) -> bool:
        """Take the state of a snapshot; False (and no change) if it is damaged."""
        if len(snapshot) < _SNAPSHOT_HEAD.size:
            return False
        version, crc, count = _SNAPSHOT_HEAD.unpack_from(snapshot)
        rows = memoryview(snapshot)[_SNAPSHOT_HEAD.size :]
        if version != _SNAPSHOT_VERSION or crc32c(snapshot[6:]) != crc or len(rows) != count * _SNAPSHOT_ROW.size:
            return False
        self.clear()
        for row in _SNAPSHOT_ROW.iter_unpack(rows):
            producer_id, epoch, last_sequence, last_offset, delta, timestamp, _, _ = row
            first = (last_sequence - delta) & LAST_SEQUENCE
            self._add(producer_id, epoch, Written(first, last_sequence, last_offset - delta, last_offset, timestamp))
        return True
