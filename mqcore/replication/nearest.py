"""Machine: which in-sync replica a consumer should read from, by its rack (KIP-392)."""

from __future__ import annotations

from collections.abc import Mapping

from mqcore.identity import BrokerId
from mqcore.partitions.leader import LeaderState


def nearest_replica(
    leader: LeaderState, me: BrokerId, offset: int, rack: str, racks: Mapping[BrokerId, str | None]
) -> BrokerId:
    """An in-sync replica in the rack that has the record at `offset`; if there is none, the leader itself.

    Of several the one with the most records is taken, and of those the one with the lowest id."""
    if racks.get(me) == rack:
        return me
    candidates = [
        (-follower.end, broker)
        for broker, follower in leader.followers.items()
        if broker in leader.isr.committed
        and racks.get(broker) == rack
        and follower.end is not None
        and follower.log_start is not None
        and follower.log_start <= offset <= follower.end
    ]
    return min(candidates)[1] if candidates else me
