"""Machine: every change of a partition's leader, in-sync replicas or assignment is made by `change`.

Own rules: a leader comes from the in-sync replicas, because only they have every committed record; the only exception
is an unclean election, which loses records and needs a setting, an operator or a lost disk. In-sync replicas never
become empty: the last one stays and leads again when it returns, unless it has lost its disk. A reassignment ends when
all its new replicas are in sync.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator
from typing import NamedTuple
from uuid import UUID

from mqcore.controller.cluster_commands import Election
from mqcore.controller.facts import NO_LEADER, PartitionChanged
from mqcore.controller.image import ClusterImage, PartitionImage, TopicImage
from mqcore.controller.setting_layers import cluster_value
from mqcore.identity import BrokerId

Replicas = tuple[BrokerId, ...]
MayLead = Callable[[BrokerId], bool]


class Assignment(NamedTuple):
    """The replicas of a partition; `removing` and `adding` are those of a reassignment in progress."""

    replicas: Replicas
    removing: Replicas = ()
    adding: Replicas = ()

    @classmethod
    def of(cls, partition: PartitionImage) -> Assignment:
        return cls(partition.replicas, partition.removing, partition.adding)


def change(
    topic_id: UUID,
    partition: PartitionImage,
    may_lead: MayLead,
    *,
    isr: Replicas | None = None,
    without: Collection[BrokerId] = (),
    assignment: Assignment | None = None,
    election: Election = Election.ONLINE,
) -> PartitionChanged | None:
    """The change that makes `isr` minus `without` the in-sync replicas, and `assignment` the assignment.

    It includes the election that this makes necessary. None if nothing changes.
    """
    wanted = assignment or Assignment.of(partition)
    in_sync = tuple(broker for broker in (partition.isr if isr is None else isr) if broker not in without)
    wanted, in_sync = _completed(wanted, in_sync or partition.isr)
    leader, is_unclean = _elect(partition, wanted.replicas, in_sync, may_lead, election)
    if is_unclean:
        in_sync = (leader,)
    loses_replicas = not set(partition.replicas) <= set(wanted.replicas)  # a removed replica learns it by the new epoch
    fact = PartitionChanged(
        topic_id,
        partition.index,
        leader if leader != partition.leader or loses_replicas else None,
        _if_new(in_sync, partition.isr),
        _if_new(wanted.replicas, partition.replicas),
        _if_new(wanted.removing, partition.removing),
        _if_new(wanted.adding, partition.adding),
    )
    return None if fact == PartitionChanged(topic_id, partition.index) else fact


def _completed(wanted: Assignment, in_sync: Replicas) -> tuple[Assignment, Replicas]:
    """End the reassignment if all replicas that it adds are in sync, and some that it keeps."""
    if not wanted.removing and not wanted.adding:
        return wanted, in_sync
    staying = tuple(broker for broker in wanted.replicas if broker not in wanted.removing)
    kept = tuple(broker for broker in in_sync if broker in staying)
    if kept and staying and set(wanted.adding) <= set(kept):
        return Assignment(staying), kept
    return wanted, in_sync


def _elect(
    partition: PartitionImage, replicas: Replicas, in_sync: Replicas, may_lead: MayLead, election: Election
) -> tuple[BrokerId, bool]:
    """The leader, and whether it may lack committed records."""
    candidates = [broker for broker in replicas if broker in in_sync and may_lead(broker)]
    preferred = replicas[0]
    if election is Election.PREFERRED and preferred in candidates:
        return preferred, False
    if partition.leader in candidates:
        return partition.leader, False
    if candidates:
        return candidates[0], False
    if election is Election.UNCLEAN:
        for broker in replicas:
            if may_lead(broker):
                return broker, True
    return NO_LEADER, False


def _if_new(brokers: Replicas, old: Replicas) -> Replicas | None:
    return None if brokers == old else brokers


def election_of(image: ClusterImage, topic: TopicImage) -> Election:
    """The election that a topic gets without an operator."""
    is_unclean = cluster_value(image, topic.configs, "unclean.leader.election.enable") == "true"
    return Election.UNCLEAN if is_unclean else Election.ONLINE


def changes_without(
    image: ClusterImage, broker: BrokerId, *, has_lost_disk: bool = False
) -> Iterator[PartitionChanged]:
    """Take a broker out of all in-sync replicas, and elect other leaders where it led.

    If it was the last one in sync and has lost its disk, another replica leads: it has the most that is left.
    """

    def may_lead(other: BrokerId) -> bool:
        return other != broker and image.is_active(other)

    for topic, partition in image.partitions():
        if broker in partition.isr:
            election = Election.UNCLEAN if has_lost_disk else election_of(image, topic)
            fact = change(topic.id, partition, may_lead, without=(broker,), election=election)
            if fact is not None:
                yield fact


def changes_with(image: ClusterImage, broker: BrokerId) -> Iterator[PartitionChanged]:
    """Elect a leader for partitions that have none, now that `broker` is active."""

    def may_lead(other: BrokerId) -> bool:
        return other == broker or image.is_active(other)

    for topic, partition in image.partitions():
        if not partition.has_leader and broker in partition.replicas:
            fact = change(topic.id, partition, may_lead, election=election_of(image, topic))
            if fact is not None:
                yield fact
