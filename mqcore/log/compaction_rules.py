"""Machine: what compaction leaves of one batch.

Own rules:
* A record stays while no later record of its key is known; offsets, timestamps and sequences stay as they were.
* A tombstone stays for `delete.retention.ms` after compaction first met it; the batch carries that horizon in place of
  its base timestamp (KIP-534).
* The last batch of each active producer, and the last of each segment, stays even if it is empty: the one so that
  idempotence survives, the other so that a log never has a hole between two segments.
* Transactional records supersede nothing here, for they may have been aborted; control batches stay as they are.
* A tombstone gets its horizon only in a run that removes the older values of its key. Records that the key map does not
  cover, and tombstones that supersede nothing, therefore stay without one: dropping them would bring old values back.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from hashlib import blake2b
from typing import Final

from mqcore.wire.batches import DELETE_HORIZON, BatchHeader
from mqcore.wire.records import TIMESTAMP_MAX, Record, build_batch

_DIGEST_BYTES: Final = 16  # collisions of two keys are out of reach, by chance and by malice


def digest(key: bytes) -> bytes:
    return blake2b(key, digest_size=_DIGEST_BYTES).digest()


def supersedes(header: BatchHeader) -> bool:
    """May the records of this batch replace earlier ones?"""
    return not (header.is_control or header.is_transactional)


@dataclass(frozen=True, slots=True)
class Rules:
    """One run of compaction: the newest offset of each key in the dirty part, and the time."""

    latest: Mapping[bytes, int]
    now_ms: int
    delete_retention_ms: int

    def stays(self, record: Record, horizon_passed: bool) -> bool:
        if record.key is None or (record.value is None and horizon_passed):
            return False
        return self.latest.get(digest(record.key), -1) <= record.offset

    def horizon_passed(self, header: BatchHeader) -> bool:
        has_horizon = supersedes(header) and header.attributes & DELETE_HORIZON
        return bool(has_horizon) and header.base_timestamp <= self.now_ms

    def rewrite(self, batch: bytes, header: BatchHeader, kept: Sequence[Record], *, must_stay: bool) -> bytes | None:
        """The batch with only the `kept` records; None if nothing needs to be left of it."""
        if not kept and not must_stay:
            return None
        may_expire = supersedes(header) and not header.attributes & DELETE_HORIZON
        needs_horizon = may_expire and any(record.value is None for record in kept)
        if len(kept) == header.records_count and not needs_horizon:
            return batch
        attributes, base_timestamp = header.attributes, header.base_timestamp
        if needs_horizon:
            attributes |= DELETE_HORIZON
            base_timestamp = min(self.now_ms + self.delete_retention_ms, TIMESTAMP_MAX)
        return bytes(
            build_batch(
                kept,
                codec=header.codec,
                leader_epoch=header.leader_epoch,
                producer_id=header.producer_id,
                producer_epoch=header.producer_epoch,
                base_sequence=header.base_sequence,
                attributes=attributes,
                base_offset=header.base_offset,
                last_offset=header.last_offset,
                base_timestamp=base_timestamp,
                max_timestamp=None if kept else header.max_timestamp,
            )
        )
