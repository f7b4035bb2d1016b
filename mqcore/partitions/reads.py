"""Values: the requests and outcomes of reading a partition."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

from mqcore.identity import BrokerId, LeaderEpoch, Offset
from mqcore.log.slices import Slice
from mqcore.wire.errors import ErrorCode, Refusal


class ReadRequest(NamedTuple):
    """Whole batches from the one that contains `offset`. An epoch of −1 is not checked."""

    offset: int
    bytes_max: int
    at_least_one: bool = True  # return the first batch whole, however large it is
    committed_only: bool = False  # isolation level READ_COMMITTED
    current_leader_epoch: int = -1  # which leader epoch the reader believes to be current
    last_fetched_epoch: int = -1  # the leader epoch of the last batch that the reader has


@dataclass(frozen=True, slots=True, eq=False)
class ReplicaFetch:
    """What a follower asks its leader for. An answer belongs to exactly one of these objects, so they are never equal.

    The offset says that the follower has every record below it."""

    replica: BrokerId
    broker_epoch: int
    leader_epoch: LeaderEpoch
    offset: Offset
    last_fetched_epoch: int  # the leader epoch of its last record, or −1
    log_start: Offset


class ReadResult(NamedTuple):
    high_watermark: Offset
    last_stable_offset: Offset
    log_start_offset: Offset
    records: Slice | None
    ends_in_sealed_segment: bool  # a read stops at the end of its segment, and a sealed one never grows


class LeaderEpochMismatch(NamedTuple):
    """The reader and this leader disagree about the leader epoch. `leader_epoch` is ours."""

    error: ErrorCode
    leader_epoch: LeaderEpoch


class Divergence(NamedTuple):
    """The reader has batches that this log lacks: here, `epoch` ended at `end_offset`."""

    epoch: int
    end_offset: int


ReadOutcome = ReadResult | LeaderEpochMismatch | Divergence | Refusal
