"""Shell: what consumers read of a partition. Followers have a path of their own, because they read to the log's end."""

from __future__ import annotations

from typing import TYPE_CHECKING

from mqcore.identity import Offset
from mqcore.log.errors import LogFault
from mqcore.log.slices import Slice
from mqcore.partitions.reads import Divergence, LeaderEpochMismatch, ReadOutcome, ReadRequest, ReadResult
from mqcore.wire.errors import ErrorCode, Refusal

if TYPE_CHECKING:
    from mqcore.partitions.partition import Partition


def read(partition: Partition, request: ReadRequest) -> ReadOutcome:
    offset, bytes_max, at_least_one, committed_only, current_leader_epoch, last_fetched_epoch = request
    if current_leader_epoch >= 0:
        refusal = partition.check_leader_epoch(current_leader_epoch)
        if refusal is not None:
            return LeaderEpochMismatch(refusal.error, partition.leader_epoch)
    log = partition.log
    if last_fetched_epoch >= 0:
        epoch, end = log.epochs.end_offset_for(last_fetched_epoch)
        if epoch < last_fetched_epoch or end < offset:
            return Divergence(epoch, end)
    if partition.role is None:
        return partition.read_refusal()
    if not log.start_offset <= offset <= log.end_offset:
        message = f"offset {offset} is outside {log.start_offset} to {log.end_offset}"
        return Refusal(ErrorCode.OFFSET_OUT_OF_RANGE, message)
    limit = partition.visible_end(committed_only=committed_only)
    if offset > limit and not partition.leads:  # the consumer has read more elsewhere than is known here
        return Refusal(ErrorCode.OFFSET_NOT_AVAILABLE, f"this follower only knows records below {limit}")
    return read_below(partition, offset, bytes_max, limit, at_least_one=at_least_one)


def read_below(
    partition: Partition, offset: int, bytes_max: int, limit: int, *, at_least_one: bool
) -> ReadResult | Refusal:
    """Whole batches from `offset` on, which must be inside the log, to `limit`."""
    log = partition.log
    records: Slice | None = None
    ends_in_sealed_segment = False
    if offset < limit and (bytes_max > 0 or at_least_one):
        try:
            records = log.read(offset, bytes_max, limit=limit, at_least_one=at_least_one)
        except LogFault as fault:
            return partition.go_offline(str(fault))
        except OSError as fault:
            return Refusal(ErrorCode.KAFKA_STORAGE_ERROR, f"the log could not be read: {fault.strerror}")
        ends_in_sealed_segment = records is not None and offset < log.segments.active.base_offset
    stable, start = partition.last_stable_offset, Offset(log.start_offset)
    return ReadResult(partition.high_watermark, stable, start, records, ends_in_sealed_segment)
