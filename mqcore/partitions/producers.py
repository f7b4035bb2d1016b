"""Machine: idempotence in one partition: what each producer wrote last, and which batch it may write next.

`check` decides and changes nothing; `observe` applies a batch that is in the log, both on append and on replay.
Each producer's last five batches are remembered, because a client has at most five in flight. If one of them arrives
again it is a duplicate, and the client gets the offset of the first copy. An unknown producer may start at any sequence
number: its state may have expired, and that must not look like a gap. Source: KIP-98, KIP-360.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import islice
from typing import NamedTuple
from weakref import WeakSet

from mqcore.log.producer_snapshot import BadSnapshot, SnapshotRow, decode_snapshot, encode_snapshot
from mqcore.wire.batches import BatchHeader
from mqcore.wire.errors import ErrorCode, Refusal

REMEMBERED_BATCHES = 5
PRODUCERS_MAX = 20_000
"""Per partition. Writing a snapshot of this many blocks the event loop for about 20 ms."""

BROKER_PRODUCERS_MAX = 100_000
"""In all partitions together. Each takes 300 bytes, or 450 with five batches."""

_EVICTED_AT_ONCE = 1000
LAST_SEQUENCE = 0x7FFFFFFF

_WRITTEN = struct.Struct(">iiqqq")


class Written(NamedTuple):
    """One batch of a producer that is in the log."""

    base_sequence: int
    last_sequence: int
    base_offset: int
    last_offset: int
    timestamp: int


class Duplicate(NamedTuple):
    """The batch is already in the log, at these offsets."""

    base_offset: int
    last_offset: int
    timestamp: int


@dataclass(slots=True)
class Producer:
    """Its batches are packed to save memory: a broker remembers many producers but looks up few."""

    epoch: int
    packed: bytes = b""
    has_written: bool = True  # since the last `expire_idle`
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
    """Limits the producers of all partitions together. Above the limit, the partition with the most producers evicts
    those that have been idle the longest, so a client that invents producer ids evicts its own."""

    def __init__(self, limit: int = BROKER_PRODUCERS_MAX) -> None:
        self.limit = limit
        self.count = 0
        self.partitions: WeakSet[Producers] = WeakSet()

    def add(self, count: int = 1) -> None:
        self.count += count
        while self.count > self.limit and (largest := max(self.partitions, key=len)):
            largest.evict_idle(min(_EVICTED_AT_ONCE, len(largest) // 2 + 1))


def sequence_after(sequence: int, records: int) -> int:
    """The sequence number `records` further on; it wraps from 2³¹−1 to 0."""
    return (sequence + records) & LAST_SEQUENCE


class Producers:
    def __init__(self, budget: ProducerBudget | None = None) -> None:
        self._producers: dict[int, Producer] = {}  # least recently written first
        self._budget = budget or ProducerBudget()
        self._budget.partitions.add(self)

    def join(self, budget: ProducerBudget) -> None:
        """Count these producers in the broker's budget. Until then a thread may restore them."""
        self._budget = budget
        budget.partitions.add(self)
        budget.add(len(self))

    def __len__(self) -> int:
        return len(self._producers)

    def by_id(self) -> Iterator[tuple[int, Producer]]:
        """(producer id, producer), the one that has been idle the longest first."""
        return iter(self._producers.items())

    def check(self, header: BatchHeader) -> Duplicate | Refusal | None:
        """None: the batch may be appended."""
        if header.base_sequence < 0 or header.producer_epoch < 0:
            return Refusal(ErrorCode.INVALID_RECORD, "a producer id needs an epoch and a sequence number")
        producer = self._producers.get(header.producer_id)
        if producer is None:
            return None
        if header.producer_epoch < producer.epoch:
            return Refusal(
                ErrorCode.INVALID_PRODUCER_EPOCH,
                f"epoch {header.producer_epoch} is older than the current epoch {producer.epoch}",
            )
        if header.producer_epoch > producer.epoch:
            if header.base_sequence == 0:
                return None
            return Refusal(ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER, "a new epoch must begin at sequence 0")
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
        producer.has_written = True
        self._producers[producer_id] = producer
        if is_new:
            if len(self._producers) > PRODUCERS_MAX:
                self.evict_idle(1)
            self._budget.add()

    def evict_idle(self, count: int) -> None:
        """Evict the `count` producers that have been idle the longest."""
        for producer_id in list(islice(self._producers, count)):
            self._remove(producer_id)

    def _remove(self, producer_id: int) -> None:
        del self._producers[producer_id]
        self._budget.count -= 1

    def expire_idle(self, now_ms: int, expiration_ms: int) -> None:
        """Remove producers that wrote nothing for `expiration_ms` of monotonic time. A restart resets that time."""
        expired = []
        for producer_id, producer in self._producers.items():
            if producer.has_written:
                producer.has_written, producer.idle_since_ms = False, now_ms
            elif now_ms - producer.idle_since_ms >= expiration_ms:
                expired.append(producer_id)
        for producer_id in expired:
            self._remove(producer_id)

    def active_ids(self, now_ms: int, expiration_ms: int) -> frozenset[int]:
        """The producers whose last batch compaction must keep, by the wall clock.

        A restart remembers every producer in the log for another `expiration_ms`. So this counts the age of the last
        batch instead; otherwise the log of a broker that restarts every day would keep all producers forever."""
        return frozenset(
            producer_id
            for producer_id, producer in self._producers.items()
            if (timestamp := producer.last.timestamp) < 0 or now_ms - timestamp < expiration_ms
        )

    def clear(self) -> None:
        self._budget.count -= len(self._producers)
        self._producers.clear()

    def snapshot(self) -> bytes:
        return encode_snapshot(
            SnapshotRow(
                producer_id,
                producer.epoch,
                written.last_sequence,
                written.last_offset,
                written.last_offset - written.base_offset,
                written.timestamp,
            )
            for producer_id, producer in self._producers.items()
            for written in producer.batches
        )

    def restore(self, snapshot: bytes) -> bool:
        """Replace the state with that of a snapshot. False, without a change, if the snapshot is damaged."""
        try:
            rows = decode_snapshot(snapshot)
        except BadSnapshot:
            return False
        self.clear()
        for row in rows:
            base_sequence = (row.last_sequence - row.offset_delta) & LAST_SEQUENCE
            base_offset = row.last_offset - row.offset_delta
            written = Written(base_sequence, row.last_sequence, base_offset, row.last_offset, row.timestamp)
            self._add(row.producer_id, row.producer_epoch, written)
        return True
