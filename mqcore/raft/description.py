"""Machine: how the quorum looks to an operator, and when its leader last heard of each replica."""

from __future__ import annotations

from typing import NamedTuple

from mqcore.identity import BrokerId, LeaderEpoch, Millis, Offset
from mqcore.raft.leading import REPLICAS_MAX
from mqcore.raft.messages import FetchRequest, VoterKey, VoterSet
from mqcore.raft.state import Leader

UNKNOWN = -1
OBSERVER_IDLE_MS_MAX = 300_000
"""An observer that has not fetched for longer is not shown, as in Kafka."""

REPLACED_MS_MIN = 5_000
"""A folder whose node has fetched with another one for that much longer is gone: each of them would fetch more often
than that."""


class ReplicaDescription(NamedTuple):
    """Times are wall times; −1 is unknown."""

    key: VoterKey
    end: int
    fetched_at_ms: int
    caught_up_at_ms: int


class QuorumDescription(NamedTuple):
    """Only the leader knows how far the others are."""

    leader: BrokerId | None
    epoch: LeaderEpoch
    high_watermark: Offset
    voters: tuple[ReplicaDescription, ...]
    observers: tuple[ReplicaDescription, ...]


class FetchTimes:
    """When each replica has last fetched, and when its fetch has last reached the end of the log."""

    def __init__(self) -> None:
        self._times: dict[VoterKey, tuple[int, int]] = {}

    def note(self, request: FetchRequest, end: int, now_ms: Millis) -> None:
        _, caught_up = self._times.pop(request.replica, (UNKNOWN, UNKNOWN))
        self._times[request.replica] = now_ms, now_ms if request.offset >= end else caught_up
        if len(self._times) > 2 * REPLICAS_MAX:  # requests may come under made-up names
            del self._times[next(iter(self._times))]

    def describe(
        self, me: VoterKey, own_end: int, role: Leader | None, voters: VoterSet, now_ms: Millis
    ) -> tuple[tuple[ReplicaDescription, ...], tuple[ReplicaDescription, ...]]:
        """(voters, observers)"""
        progress = {} if role is None else role.progress

        def replica(key: VoterKey) -> ReplicaDescription:
            if key == me:
                return ReplicaDescription(key, own_end, now_ms, now_ms)
            end = progress[key].end if key in progress else UNKNOWN
            return ReplicaDescription(key, end, *self._times.get(key, (UNKNOWN, UNKNOWN)))

        since = now_ms - OBSERVER_IDLE_MS_MAX
        fetching = [key for key, times in self._times.items() if times[0] >= since and not self._is_replaced(key)]
        others = [key for key in fetching if key in progress and key not in voters.values()]
        return tuple(map(replica, voters.values())), tuple(map(replica, others))

    def _is_replaced(self, key: VoterKey) -> bool:
        """Whether the node has lost this folder and runs with another one."""
        newest = max(fetched for other, (fetched, _) in self._times.items() if other.id == key.id)
        return newest - self._times[key][0] >= REPLACED_MS_MIN
