"""Machine: AlterPartition: the leader of a partition proposes in-sync replicas, and the controller applies or refuses.

Own rule: a compare-and-set. A proposal counts only if it was made by the present leader, in its present epoch, from the
present state of the partition, for the present lives of the replicas (KIP-903), and for this controller. The last rule
is ours: a controller that is elected again must not apply a request from before, because a controller in between may
have refused it, and the leader then counts on that refusal.
"""

from __future__ import annotations

from mqcore.controller.cluster_commands import AlteredPartition, AlteredPartitions, AlterPartition, IsrProposal
from mqcore.controller.elections import change
from mqcore.controller.facts import MetadataFact, PartitionChanged
from mqcore.controller.image import ClusterImage, PartitionImage, changed
from mqcore.controller.membership import stale_broker_epoch
from mqcore.identity import BrokerId
from mqcore.wire.errors import ErrorCode, Refusal


def decide_alter_partition(
    image: ClusterImage, controller_epoch: int, command: AlterPartition
) -> tuple[list[MetadataFact], AlteredPartitions | Refusal]:
    if command.controller_epoch not in (-1, controller_epoch):
        why = f"the request is for controller epoch {command.controller_epoch}, this is epoch {controller_epoch}"
        return [], Refusal(ErrorCode.NOT_CONTROLLER, why)
    broker = image.brokers.get(command.broker)
    if broker is None or broker.broker_epoch != command.broker_epoch:
        return [], stale_broker_epoch(command.broker, command.broker_epoch, image)
    facts: list[MetadataFact] = []
    outcomes: list[AlteredPartition | Refusal] = []
    named: set[tuple[object, int]] = set()
    for proposal in command.proposals:
        key = (proposal.topic_id, proposal.partition)
        if key in named:
            outcomes.append(Refusal(ErrorCode.INVALID_REQUEST, "the request contains this partition twice"))
            continue
        named.add(key)
        fact, outcome = _decide(image, command.broker, proposal)
        facts += fact
        outcomes.append(outcome)
    return facts, AlteredPartitions(tuple(outcomes))


def _decide(
    image: ClusterImage, broker: BrokerId, proposal: IsrProposal
) -> tuple[list[MetadataFact], AlteredPartition | Refusal]:
    if proposal.topic_id not in image.topics_by_id:
        return [], Refusal(ErrorCode.UNKNOWN_TOPIC_ID, "the topic does not exist, or was deleted and created again")
    partition = image.partition(proposal.topic_id, proposal.partition)
    if partition is None:
        return [], Refusal(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, "the partition does not exist")
    refusal = _refusal(image, broker, partition, proposal)
    if refusal is not None:
        return [], refusal
    isr = tuple(member for member, _ in proposal.isr)
    fact = change(proposal.topic_id, partition, image.is_active, isr=isr)
    if fact is None:  # the new partition epoch voids every older proposal that is still on its way
        fact = PartitionChanged(proposal.topic_id, proposal.partition, isr=partition.isr)
    after = changed(partition, fact)
    if after.leader_epoch != partition.leader_epoch:  # the proposal completed a reassignment
        return [fact], Refusal(ErrorCode.NEW_LEADER_ELECTED, "the change began a new leader epoch")
    return [fact], _state(after)


def _refusal(image: ClusterImage, broker: BrokerId, partition: PartitionImage, proposal: IsrProposal) -> Refusal | None:
    """The first rule that the proposal breaks. The order is Kafka's."""
    if proposal.leader_epoch > partition.leader_epoch or proposal.partition_epoch > partition.partition_epoch:
        return Refusal(ErrorCode.NOT_CONTROLLER, "the leader has newer metadata than this controller")
    if proposal.leader_epoch < partition.leader_epoch:
        return Refusal(ErrorCode.FENCED_LEADER_EPOCH, f"the leader epoch is {partition.leader_epoch}")
    if broker != partition.leader:
        return Refusal(ErrorCode.INVALID_REQUEST, f"broker {partition.leader} leads the partition")
    if proposal.partition_epoch < partition.partition_epoch:
        return Refusal(ErrorCode.INVALID_UPDATE_VERSION, f"the partition epoch is {partition.partition_epoch}")
    isr = [member for member, _ in proposal.isr]
    if len(set(isr)) < len(isr) or not set(isr) <= set(partition.replicas) or broker not in isr:
        return Refusal(ErrorCode.INVALID_REQUEST, "in-sync replicas must be replicas, the leader among them")
    for member, broker_epoch in proposal.isr:
        why = _ineligible(image, member, broker_epoch)
        if why:
            return Refusal(ErrorCode.INELIGIBLE_REPLICA, f"broker {member} cannot be in sync: it {why}")
    return None


def _ineligible(image: ClusterImage, member: BrokerId, broker_epoch: int) -> str | None:
    registered = image.brokers.get(member)
    if registered is None:
        return "is not registered"
    if registered.in_controlled_shutdown:
        return "is shutting down"
    if registered.fenced:
        return "is fenced"
    if broker_epoch not in (-1, registered.broker_epoch):
        return f"was registered again with epoch {registered.broker_epoch}, the leader knows {broker_epoch}"
    return None


def _state(partition: PartitionImage) -> AlteredPartition:
    return AlteredPartition(partition.leader, partition.leader_epoch, partition.isr, partition.partition_epoch)
