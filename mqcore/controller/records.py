"""Codec: metadata facts ↔ the values of `__cluster_metadata` records.

The schemas are those of Kafka's own quorum, so Kafka's tools can read this metadata log. Each value begins with the
frame version, the record type and the version of that type. A fact is written in the oldest version that has all its
fields, and read in every version that has a schema here.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import cache
from typing import TYPE_CHECKING, Any, Final, NamedTuple
from uuid import UUID

from mqcore.controller.facts import (
    BrokerChanged,
    BrokerRegistered,
    BrokerUnregistered,
    ConfigChanged,
    ControllerFact,
    Endpoint,
    FeatureLevelSet,
    MetadataFact,
    NoOp,
    PartitionChanged,
    PartitionCreated,
    ProducerIdsReserved,
    ResourceType,
    SecurityProtocol,
    SessionFact,
    TopicCreated,
    TopicRemoved,
)
from mqcore.identity import NO_TOPIC_ID, BrokerId
from mqcore.wire.frames import BadFrame
from mqcore.wire.primitives import Reader, Writer

if TYPE_CHECKING:
    from mqcore.wire.schema_codecs import ReadFunction, WriteFunction
    from mqcore.wire.schemas import Schema

FRAME_VERSION: Final = 1
_SAME_LEADER: Final = -2
"""Kafka's number for "the leader does not change" in a partition change."""


class RecordType(NamedTuple):
    """How one kind of fact is kept. `number` repeats the schema's, so that a start reads only the files it needs."""

    number: int
    schema: str
    version: int
    fields: Callable[[Any], Mapping[str, Any]]
    fact: Callable[[Any], MetadataFact]


def encode_if_kept(fact: ControllerFact) -> tuple[None, bytes] | None:
    return None if isinstance(fact, SessionFact) else encode(fact)


def encode(fact: MetadataFact) -> tuple[None, bytes]:
    """The key, which is None, and the value of the record of a fact."""
    kind = RECORD_TYPES[type(fact)]
    writer = Writer()
    writer.uvarint(FRAME_VERSION)
    writer.uvarint(kind.number)
    writer.uvarint(kind.version)
    _writer(kind.schema, kind.version)(writer, kind.fields(fact))
    return None, writer.finish()


def decode(value: bytes) -> MetadataFact:
    """The fact in a record value. Raises `BadFrame` for an unknown type or version."""
    reader = Reader(value)
    if reader.uvarint() != FRAME_VERSION:
        raise BadFrame("a metadata record has an unknown frame version")
    number, version = reader.uvarint(), reader.uvarint()
    kind = _BY_NUMBER.get(number)
    if kind is None or version not in _schema(kind.schema).versions:
        raise BadFrame(f"unknown metadata record type {number}, version {version}")
    try:
        return kind.fact(_reader(kind.schema, version)(reader))
    except ValueError as error:  # an unknown resource type or security protocol
        raise BadFrame(str(error)) from error


@cache
def _schema(name: str) -> Schema:
    from mqcore.wire.schemas import load_schema

    return load_schema(name)


@cache
def _reader(schema: str, version: int) -> ReadFunction:
    from mqcore.wire.schema_codecs import compile_reader

    return compile_reader(_schema(schema), version)


@cache
def _writer(schema: str, version: int) -> WriteFunction:
    from mqcore.wire.schema_codecs import compile_writer

    return compile_writer(_schema(schema), version)


# The fields of each type


def _broker_fields(fact: BrokerRegistered) -> Mapping[str, Any]:
    return {
        "broker_id": fact.broker,
        "incarnation_id": fact.incarnation,
        "broker_epoch": fact.broker_epoch,
        "end_points": [
            {"name": each.listener, "host": each.host, "port": each.port, "security_protocol": each.security_protocol}
            for each in fact.endpoints
        ],
        "rack": fact.rack,
        "fenced": fact.fenced,
        "in_controlled_shutdown": fact.in_controlled_shutdown,
        "log_dirs": fact.directories,
    }


def _broker(record: Any) -> BrokerRegistered:
    return BrokerRegistered(
        record.broker_id,
        _id(record.incarnation_id),
        record.broker_epoch,
        tuple(
            Endpoint(each.name, each.host, each.port, SecurityProtocol(each.security_protocol))
            for each in record.end_points
        ),
        record.rack,
        record.fenced,
        record.in_controlled_shutdown,
        tuple(map(_id, record.log_dirs)),
    )


def _broker_change_fields(fact: BrokerChanged) -> Mapping[str, Any]:
    return {
        "broker_id": fact.broker,
        "broker_epoch": fact.broker_epoch,
        "fenced": {None: 0, True: 1, False: -1}[fact.fenced],
        "in_controlled_shutdown": int(fact.enters_controlled_shutdown),
    }


def _broker_change(record: Any) -> BrokerChanged:
    fenced = None if record.fenced == 0 else record.fenced > 0
    return BrokerChanged(record.broker_id, record.broker_epoch, fenced, record.in_controlled_shutdown > 0)


def _partition_fields(fact: PartitionCreated) -> Mapping[str, Any]:
    return {
        "partition_id": fact.partition,
        "topic_id": fact.topic_id,
        "replicas": fact.replicas,
        "isr": fact.isr,
        "removing_replicas": fact.removing,
        "adding_replicas": fact.adding,
        "leader": fact.leader,
        "leader_epoch": fact.leader_epoch,
        "partition_epoch": fact.partition_epoch,
    }


def _partition(record: Any) -> PartitionCreated:
    return PartitionCreated(
        _id(record.topic_id),
        record.partition_id,
        tuple(record.replicas),
        tuple(record.isr),
        record.leader,
        record.leader_epoch,
        record.partition_epoch,
        tuple(record.removing_replicas),
        tuple(record.adding_replicas),
    )


def _partition_change_fields(fact: PartitionChanged) -> Mapping[str, Any]:
    return {
        "partition_id": fact.partition,
        "topic_id": fact.topic_id,
        "isr": fact.isr,
        "leader": _SAME_LEADER if fact.leader is None else fact.leader,
        "replicas": fact.replicas,
        "removing_replicas": fact.removing,
        "adding_replicas": fact.adding,
    }


def _partition_change(record: Any) -> PartitionChanged:
    return PartitionChanged(
        _id(record.topic_id),
        record.partition_id,
        None if record.leader == _SAME_LEADER else record.leader,
        _optional(record.isr),
        _optional(record.replicas),
        _optional(record.removing_replicas),
        _optional(record.adding_replicas),
    )


def _optional(brokers: Sequence[BrokerId] | None) -> tuple[BrokerId, ...] | None:
    return None if brokers is None else tuple(brokers)


def _id(identity: UUID | None) -> UUID:
    return identity or NO_TOPIC_ID


RECORD_TYPES: Final[dict[type, RecordType]] = {
    BrokerRegistered: RecordType(0, "RegisterBrokerRecord", 3, _broker_fields, _broker),
    BrokerUnregistered: RecordType(
        1,
        "UnregisterBrokerRecord",
        0,
        lambda fact: {"broker_id": fact.broker, "broker_epoch": fact.broker_epoch},
        lambda record: BrokerUnregistered(record.broker_id, record.broker_epoch),
    ),
    TopicCreated: RecordType(
        2,
        "TopicRecord",
        0,
        lambda fact: {"name": fact.name, "topic_id": fact.topic_id},
        lambda record: TopicCreated(record.name, _id(record.topic_id)),
    ),
    PartitionCreated: RecordType(3, "PartitionRecord", 0, _partition_fields, _partition),
    ConfigChanged: RecordType(
        4,
        "ConfigRecord",
        0,
        lambda fact: {
            "resource_type": fact.resource_type,
            "resource_name": fact.resource,
            "name": fact.name,
            "value": fact.value,
        },
        lambda record: ConfigChanged(
            ResourceType(record.resource_type), record.resource_name, record.name, record.value
        ),
    ),
    PartitionChanged: RecordType(5, "PartitionChangeRecord", 0, _partition_change_fields, _partition_change),
    TopicRemoved: RecordType(
        9,
        "RemoveTopicRecord",
        0,
        lambda fact: {"topic_id": fact.topic_id},
        lambda record: TopicRemoved(_id(record.topic_id)),
    ),
    FeatureLevelSet: RecordType(
        12,
        "FeatureLevelRecord",
        0,
        lambda fact: {"name": fact.feature, "feature_level": fact.level},
        lambda record: FeatureLevelSet(record.name, record.feature_level),
    ),
    ProducerIdsReserved: RecordType(
        15,
        "ProducerIdsRecord",
        0,
        lambda fact: {
            "broker_id": fact.broker,
            "broker_epoch": fact.broker_epoch,
            "next_producer_id": fact.next_producer_id,
        },
        lambda record: ProducerIdsReserved(record.broker_id, record.broker_epoch, record.next_producer_id),
    ),
    BrokerChanged: RecordType(17, "BrokerRegistrationChangeRecord", 1, _broker_change_fields, _broker_change),
    NoOp: RecordType(20, "NoOpRecord", 0, lambda fact: {}, lambda record: NoOp()),
}

_BY_NUMBER: Final = {kind.number: kind for kind in RECORD_TYPES.values()}
