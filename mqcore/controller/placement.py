"""Machine: on which brokers the replicas of a new partition go.

Leaders go round the racks and, in each rack, round its brokers. The followers of a partition are on other racks as far
as there are any. Each time the leaders have gone round all brokers, the followers shift by one, so that the partitions
of a failed broker go to different brokers. Fenced brokers come last in their rack and lead nothing.
"""

from __future__ import annotations

from collections.abc import Iterable
from uuid import UUID

from mqcore.controller.facts import BrokerRegistered, MetadataFact, PartitionCreated
from mqcore.controller.image import ClusterImage
from mqcore.identity import BrokerId, LeaderEpoch
from mqcore.wire.errors import ErrorCode, Refusal

Replicas = tuple[BrokerId, ...]


def place(image: ClusterImage, first: int, count: int, factor: int) -> list[Replicas] | Refusal:
    """The replicas of the partitions from `first` on."""
    if factor <= 0:
        message = "Replication factor must be larger than 0, or -1 to use the default value."
        return Refusal(ErrorCode.INVALID_REPLICATION_FACTOR, message)
    if factor > len(image.brokers):
        message = (
            f"Unable to replicate the partition {factor} time(s): The target replication factor of {factor} cannot be "
            f"reached because only {len(image.brokers)} broker(s) are registered."
        )
        return Refusal(ErrorCode.INVALID_REPLICATION_FACTOR, message)
    racks = _racks(image.brokers.values())
    usable = sum(broker.is_active for broker in image.brokers.values())
    if not usable:
        message = f"Unable to replicate the partition {factor} time(s): All brokers are currently fenced."
        return Refusal(ErrorCode.INVALID_REPLICATION_FACTOR, message)
    return [_replicas(racks, usable, index, factor) for index in range(first, first + count)]


def _racks(brokers: Iterable[BrokerRegistered]) -> list[list[BrokerRegistered]]:
    """The brokers of each rack; the racks in which a broker may lead come first."""
    racks: dict[str, list[BrokerRegistered]] = {}
    for broker in sorted(brokers, key=lambda each: (each.rack or "", each.broker)):
        racks.setdefault(broker.rack or "", []).append(broker)
    return list(racks.values())


def _replicas(racks: list[list[BrokerRegistered]], usable: int, index: int, factor: int) -> Replicas:
    leading = [rack for rack in racks if any(broker.is_active for broker in rack)]
    home = leading[index % len(leading)]
    leaders = [broker.broker for broker in home if broker.is_active]
    leader = leaders[index // len(leading) % len(leaders)]
    start = racks.index(home) + 1
    turns = [_followers(rack, leader, index // usable) for rack in (*racks[start:], *racks[:start])]
    chosen = [leader]
    while len(chosen) < factor:  # one broker of each rack, then the next one of each
        for turn in turns:
            if turn and len(chosen) < factor:
                chosen.append(turn.pop(0))
    return tuple(chosen)


def _followers(rack: list[BrokerRegistered], leader: BrokerId, shift: int) -> list[BrokerId]:
    """The brokers of a rack in the order in which they become followers; those after the leader come first."""
    active = [broker.broker for broker in rack if broker.is_active]
    if leader in active:
        place = active.index(leader)
        active = active[place + 1 :] + active[:place]
    if active:
        shift %= len(active)
        active = active[shift:] + active[:shift]
    return active + [broker.broker for broker in rack if not broker.is_active]


def partition_facts(
    image: ClusterImage, topic_id: UUID, first: int, assigned: Iterable[Replicas]
) -> list[MetadataFact] | Refusal:
    """New partitions from `first` on. Active replicas are in sync from the start; one of them has to lead."""
    facts: list[MetadataFact] = []
    for index, replicas in enumerate(assigned, first):
        isr = tuple(broker for broker in replicas if image.is_active(broker))
        if not isr:
            why = (
                f"All brokers specified in the manual partition assignment for partition {index} are fenced or in "
                "controlled shutdown."
            )
            return Refusal(ErrorCode.INVALID_REPLICA_ASSIGNMENT, why)
        facts.append(PartitionCreated(topic_id, index, replicas, isr, isr[0], LeaderEpoch(0), 0))
    return facts
