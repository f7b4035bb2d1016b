"""Machine: which records of a batch survive compaction.

Own rules:
* A record survives while no later record of its key is known. Offsets, timestamps and sequence numbers never change.
* A tombstone survives for `delete.retention.ms` after compaction first reads it. Until then its batch stores the end
  of that time, the delete horizon, in place of its base timestamp (KIP-534).
* The last batch of each active producer survives even if it is empty, so that idempotence keeps working. The last
  batch of each segment does too, so that no gap appears between two segments.
* Transactional records replace nothing, because they may have been aborted. Control batches never change.
* A tombstone gets its horizon only in a run that removes all older values of its key. A tombstone beyond the key map,
  or in a batch that replaces nothing, therefore survives without a horizon: dropping it would restore old values.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from hashlib import blake2b
from typing import Final, NamedTuple

from mqcore.wire.batches import DELETE_HORIZON, BatchHeader
from mqcore.wire.records import TIMESTAMP_MAX, Record, build_batch

_DIGEST_BYTES: Final = 16  # long enough that two keys never collide, not even if an attacker chooses them


def digest(key: bytes) -> bytes:
    return blake2b(key, digest_size=_DIGEST_BYTES).digest()


def replaces_older_records(header: BatchHeader) -> bool:
    return not (header.is_control or header.is_transactional)


class KeepRules(NamedTuple):
    """The rules of one run. `latest` maps the digest of each key in the dirty part to its newest offset."""

    latest: Mapping[bytes, int]
    now_ms: int
    delete_retention_ms: int

    def keeps(self, record: Record, has_horizon_passed: bool) -> bool:
        if record.key is None or (record.value is None and has_horizon_passed):
            return False
        return self.latest.get(digest(record.key), -1) <= record.offset

    def has_horizon_passed(self, header: BatchHeader) -> bool:
        has_horizon = replaces_older_records(header) and header.attributes & DELETE_HORIZON
        return bool(has_horizon) and header.base_timestamp <= self.now_ms

    def rewrite(self, batch: bytes, header: BatchHeader, kept: Sequence[Record], *, must_stay: bool) -> bytes | None:
        """The batch with only the `kept` records; None if it can be dropped."""
        if not kept and not must_stay:
            return None
        may_expire = replaces_older_records(header) and not header.attributes & DELETE_HORIZON
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
