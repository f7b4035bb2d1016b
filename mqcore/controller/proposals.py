"""Shell: the proposals of this broker's leaders as a command to the controller, and what its answer means to them."""

from __future__ import annotations

from collections.abc import Callable

from mqcore.controller.cluster_commands import AlteredPartition, AlteredPartitions, AlterPartition, IsrProposal
from mqcore.controller.commands import ControllerAnswer
from mqcore.controller.queue import CommandTarget
from mqcore.coordination.journal import JournalFault
from mqcore.identity import TopicIdPartition
from mqcore.links.outcome import LinkFault
from mqcore.partitions.terms import Applied
from mqcore.replication.alter_sender import Alter
from mqcore.replication.altering import AlterAnswer, AlterAsk
from mqcore.wire.errors import ErrorCode, Refusal

OnAltered = Callable[[AlterAnswer | LinkFault], None]


def alter_through(controller: CommandTarget) -> Alter:
    def alter(ask: AlterAsk, on_altered: OnAltered) -> None:
        proposals = tuple(
            IsrProposal(
                partition.topic_id,
                partition.partition,
                proposal.leader_epoch,
                proposal.partition_epoch,
                tuple(proposal.broker_epochs.items()),
            )
            for partition, proposal in ask.proposals.items()
        )
        command = AlterPartition(ask.broker, ask.broker_epoch, proposals)
        controller.submit(command, lambda answer: on_altered(_altered(tuple(ask.proposals), answer)))

    return alter


def _altered(
    partitions: tuple[TopicIdPartition, ...], answer: ControllerAnswer | JournalFault
) -> AlterAnswer | LinkFault:
    match answer:
        case AlteredPartitions(outcomes):
            return AlterAnswer(dict(zip(partitions, map(_outcome, outcomes), strict=True)))
        case Refusal(error):
            return AlterAnswer({}, error)
        case _:
            return LinkFault(str(answer))


def _outcome(outcome: AlteredPartition | Refusal) -> Applied | ErrorCode:
    if isinstance(outcome, Refusal):
        return outcome.error
    return Applied(frozenset(outcome.isr), outcome.partition_epoch)
