"""Codec: the commands of brokers and their answers ↔ BrokerRegistration 4, BrokerHeartbeat 1, AlterPartition 3 and
AllocateProducerIds 0.

A broker encodes commands and decodes answers; the controller does the reverse. What is encoded is a mapping and what is
decoded a named tuple, as in `wire/messages.py`. These messages carry the code of a refusal and not its text.
"""

from __future__ import annotations

from collections.abc import Mapping
from itertools import groupby
from typing import Any, Final

from mqcore.controller.cluster_commands import (
    AlteredPartition,
    AlteredPartitions,
    AlterPartition,
    Heartbeat,
    HeartbeatAnswer,
    IsrProposal,
    RegisterBroker,
    Registered,
)
from mqcore.controller.commands import ProducerIdBlock, ReserveProducerIds
from mqcore.controller.facts import Endpoint, SecurityProtocol
from mqcore.identity import NO_TOPIC_ID, BrokerId, LeaderEpoch, Offset
from mqcore.wire.errors import ErrorCode, Refusal, error_code
from mqcore.wire.frames import BadFrame

ALTER_PARTITION: Final = (56, 3)
BROKER_REGISTRATION: Final = (62, 4)
BROKER_HEARTBEAT: Final = (63, 1)
ALLOCATE_PRODUCER_IDS: Final = (67, 0)

Message = Mapping[str, Any]


def encode_registration(command: RegisterBroker, cluster_id: str, previous_epoch: int = -1) -> Message:
    """`previous_epoch` is that of the life before, if the broker has stopped cleanly."""
    return {
        "broker_id": command.broker,
        "cluster_id": cluster_id,
        "incarnation_id": command.incarnation,
        "listeners": [
            {"name": each.listener, "host": each.host, "port": each.port, "security_protocol": each.security_protocol}
            for each in command.endpoints
        ],
        "rack": command.rack,
        "log_dirs": command.directories,
        "previous_broker_epoch": previous_epoch,
    }


def decode_registration(request: Any) -> RegisterBroker:
    """Raises `BadFrame` for an unknown security protocol. The caller compares the cluster id."""
    try:
        endpoints = tuple(
            Endpoint(each.name, each.host, each.port, SecurityProtocol(each.security_protocol))
            for each in request.listeners
        )
    except ValueError as error:
        raise BadFrame(str(error)) from error
    return RegisterBroker(
        BrokerId(request.broker_id),
        request.incarnation_id or NO_TOPIC_ID,
        endpoints,
        request.rack,
        tuple(directory or NO_TOPIC_ID for directory in request.log_dirs),
    )


def encode_registered(answer: Registered | Refusal) -> Message:
    if isinstance(answer, Refusal):
        return {"error_code": answer.error}
    return {"error_code": ErrorCode.NONE, "broker_epoch": answer.broker_epoch}


def decode_registered(response: Any) -> Registered | Refusal:
    return _refusal(response) or Registered(response.broker_epoch)


def encode_heartbeat(command: Heartbeat) -> Message:
    """Kafka sends the last offset that is applied, not the end."""
    return {
        "broker_id": command.broker,
        "broker_epoch": command.broker_epoch,
        "current_metadata_offset": command.applied - 1,
        "want_fence": command.wants_fence,
        "want_shut_down": command.wants_shutdown,
    }


def decode_heartbeat(request: Any) -> Heartbeat:
    return Heartbeat(
        BrokerId(request.broker_id),
        request.broker_epoch,
        Offset(request.current_metadata_offset + 1),
        request.want_fence,
        request.want_shut_down,
    )


def encode_heartbeat_answer(answer: HeartbeatAnswer | Refusal) -> Message:
    if isinstance(answer, Refusal):
        return {"error_code": answer.error}
    return {
        "error_code": ErrorCode.NONE,
        "is_caught_up": answer.is_caught_up,
        "is_fenced": answer.is_fenced,
        "should_shut_down": answer.should_shut_down,
    }


def decode_heartbeat_answer(response: Any) -> HeartbeatAnswer | Refusal:
    told = HeartbeatAnswer(response.is_caught_up, response.is_fenced, response.should_shut_down)
    return _refusal(response) or told


def encode_alter_partition(command: AlterPartition) -> Message:
    """The outcomes come back in the order of the proposals. Neighbours of one topic share an entry."""
    return {
        "broker_id": command.broker,
        "broker_epoch": command.broker_epoch,
        "topics": [
            {"topic_id": topic_id, "partitions": [_encode_proposal(proposal) for proposal in proposals]}
            for topic_id, proposals in groupby(command.proposals, key=lambda proposal: proposal.topic_id)
        ],
        "controller_epoch": command.controller_epoch,
    }


def _encode_proposal(proposal: IsrProposal) -> Message:
    return {
        "partition_index": proposal.partition,
        "leader_epoch": proposal.leader_epoch,
        "new_isr_with_epochs": [{"broker_id": broker, "broker_epoch": epoch} for broker, epoch in proposal.isr],
        "partition_epoch": proposal.partition_epoch,
    }


def decode_alter_partition(request: Any) -> AlterPartition:
    return AlterPartition(
        BrokerId(request.broker_id),
        request.broker_epoch,
        tuple(
            IsrProposal(
                topic.topic_id or NO_TOPIC_ID,
                each.partition_index,
                LeaderEpoch(each.leader_epoch),
                each.partition_epoch,
                tuple((BrokerId(member.broker_id), member.broker_epoch) for member in each.new_isr_with_epochs),
            )
            for topic in request.topics
            for each in topic.partitions
        ),
        request.controller_epoch,
    )


def encode_altered(command: AlterPartition, answer: AlteredPartitions | Refusal) -> Message:
    if isinstance(answer, Refusal):
        return {"error_code": answer.error}
    results = zip(command.proposals, answer.outcomes, strict=True)
    return {
        "error_code": ErrorCode.NONE,
        "topics": [
            {"topic_id": topic_id, "partitions": [_encode_outcome(*result) for result in topic]}
            for topic_id, topic in groupby(results, key=lambda result: result[0].topic_id)
        ],
    }


def _encode_outcome(proposal: IsrProposal, outcome: AlteredPartition | Refusal) -> Message:
    if isinstance(outcome, Refusal):
        return {"partition_index": proposal.partition, "error_code": outcome.error}
    return {
        "partition_index": proposal.partition,
        "error_code": ErrorCode.NONE,
        "leader_id": outcome.leader,
        "leader_epoch": outcome.leader_epoch,
        "isr": outcome.isr,
        "partition_epoch": outcome.partition_epoch,
    }


def decode_altered(response: Any) -> AlteredPartitions | Refusal:
    outcomes = tuple(_decode_outcome(each) for topic in response.topics for each in topic.partitions)
    return _refusal(response) or AlteredPartitions(outcomes)


def _decode_outcome(told: Any) -> AlteredPartition | Refusal:
    return _refusal(told) or AlteredPartition(
        BrokerId(told.leader_id), LeaderEpoch(told.leader_epoch), tuple(map(BrokerId, told.isr)), told.partition_epoch
    )


def encode_reservation(broker: BrokerId, broker_epoch: int) -> Message:
    return {"broker_id": broker, "broker_epoch": broker_epoch}


def decode_reservation(request: Any) -> ReserveProducerIds:
    return ReserveProducerIds(BrokerId(request.broker_id), request.broker_epoch)


def encode_reserved(answer: ProducerIdBlock | Refusal) -> Message:
    if isinstance(answer, Refusal):
        return {"error_code": answer.error}
    return {"error_code": ErrorCode.NONE, "producer_id_start": answer.first, "producer_id_len": answer.count}


def decode_reserved(response: Any) -> ProducerIdBlock | Refusal:
    return _refusal(response) or ProducerIdBlock(response.producer_id_start, response.producer_id_len)


def _refusal(response: Any) -> Refusal | None:
    return Refusal(error_code(response.error_code)) if response.error_code else None
