"""Codec: metadata facts ↔ the values of `__cluster_metadata` records.

The schemas are those of Kafka's own quorum, so Kafka's tools can read this metadata log. Each value begins with the
frame version, the record type and the version of that type.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, assert_never
from uuid import UUID

from mqcore.controller.facts import (
    BrokerRegistered,
    ConfigChanged,
    Endpoint,
    LeaderChanged,
    MetadataFact,
    PartitionCreated,
    ProducerIdsReserved,
    ResourceType,
    TopicCreated,
    TopicRemoved,
)
from mqcore.identity import NO_TOPIC_ID, BrokerId, LeaderEpoch
from mqcore.wire.frames import BadFrame
from mqcore.wire.primitives import Reader, Writer

FRAME_VERSION: Final = 1
PLAINTEXT: Final = 0
_ISR_TAG: Final = 0
_LEADER_TAG: Final = 1


def encode(fact: MetadataFact) -> tuple[None, bytes]:
    """The key, which is None, and the value of the record of a fact."""
    writer = Writer()
    match fact:
        case BrokerRegistered():
            _head(writer, 0, 1)
            writer.int32(fact.broker)
            writer.uuid(fact.incarnation)
            writer.int64(fact.broker_epoch)
            writer.compact_array(fact.endpoints, lambda endpoint: _write_endpoint(writer, endpoint))
            writer.uvarint(1)  # no features
            writer.compact_nullable_string(fact.rack)
            writer.boolean(False)  # fenced
            writer.boolean(False)  # in controlled shutdown
        case TopicCreated():
            _head(writer, 2, 0)
            writer.compact_string(fact.name)
            writer.uuid(fact.topic_id)
        case PartitionCreated():
            _head(writer, 3, 0)
            writer.int32(fact.index)
            writer.uuid(fact.topic_id)
            writer.compact_array(fact.replicas, writer.int32)
            writer.compact_array(fact.isr, writer.int32)
            writer.compact_array((), writer.int32)  # replicas being removed
            writer.compact_array((), writer.int32)  # replicas being added
            writer.int32(fact.leader)
            writer.int32(fact.leader_epoch)
            writer.int32(fact.partition_epoch)
        case ConfigChanged():
            _head(writer, 4, 0)
            writer.int8(fact.resource_type)
            writer.compact_string(fact.resource)
            writer.compact_string(fact.name)
            writer.compact_nullable_string(fact.value)
        case LeaderChanged():
            return None, _encode_leader_change(writer, fact)
        case TopicRemoved():
            _head(writer, 9, 0)
            writer.uuid(fact.topic_id)
        case ProducerIdsReserved():
            _head(writer, 15, 0)
            writer.int32(fact.broker)
            writer.int64(fact.broker_epoch)
            writer.int64(fact.next_producer_id)
        case _:
            assert_never(fact)
    writer.uvarint(0)  # tagged fields
    return None, writer.finish()


def decode(value: bytes) -> MetadataFact:
    """The fact in a record value. Raises `BadFrame` for an unknown type or version."""
    reader = Reader(value)
    if reader.uvarint() != FRAME_VERSION:
        raise BadFrame("a metadata record has an unknown frame version")
    kind, version = reader.uvarint(), reader.uvarint()
    read = _READERS.get((kind, version))
    if read is None:
        raise BadFrame(f"unknown metadata record type {kind}, version {version}")
    try:
        return read(reader)
    except ValueError as error:  # an unknown resource type
        raise BadFrame(str(error)) from error


def _head(writer: Writer, kind: int, version: int) -> None:
    writer.uvarint(FRAME_VERSION)
    writer.uvarint(kind)
    writer.uvarint(version)


def _write_endpoint(writer: Writer, endpoint: Endpoint) -> None:
    writer.compact_string(endpoint.listener)
    writer.compact_string(endpoint.host)
    writer.uint16(endpoint.port)
    writer.int16(PLAINTEXT)
    writer.uvarint(0)


def _encode_leader_change(writer: Writer, fact: LeaderChanged) -> bytes:
    _head(writer, 5, 0)
    writer.int32(fact.index)
    writer.uuid(fact.topic_id)
    isr = Writer()
    isr.compact_array(fact.isr, isr.int32)
    writer.uvarint(2)
    writer.uvarint(_ISR_TAG)
    writer.uvarint(len(isr.buffer))
    writer.buffer += isr.buffer
    writer.uvarint(_LEADER_TAG)
    writer.uvarint(4)
    writer.int32(fact.leader)
    return writer.finish()


def _topic_id(reader: Reader) -> UUID:
    return reader.uuid() or NO_TOPIC_ID


def _brokers(reader: Reader) -> tuple[BrokerId, ...]:
    return tuple(BrokerId(broker) for broker in reader.compact_array(reader.int32, 4))


def _read_broker(reader: Reader) -> BrokerRegistered:
    broker, incarnation, epoch = BrokerId(reader.int32()), _topic_id(reader), reader.int64()
    endpoints = tuple(reader.compact_array(lambda: _read_endpoint(reader)))
    reader.compact_array(lambda: _skip_feature(reader))
    rack = reader.compact_nullable_string()
    reader.boolean()  # fenced
    reader.boolean()  # in controlled shutdown
    return BrokerRegistered(broker, incarnation, epoch, endpoints, rack)


def _read_endpoint(reader: Reader) -> Endpoint:
    endpoint = Endpoint(reader.compact_string(), reader.compact_string(), reader.uint16())
    reader.int16()
    reader.skip_tags()
    return endpoint


def _skip_feature(reader: Reader) -> None:
    reader.compact_string()
    reader.int32()  # two int16
    reader.skip_tags()


def _read_topic(reader: Reader) -> TopicCreated:
    return TopicCreated(reader.compact_string(), _topic_id(reader))


def _read_partition(reader: Reader) -> PartitionCreated:
    index, topic_id, replicas, isr = reader.int32(), _topic_id(reader), _brokers(reader), _brokers(reader)
    _brokers(reader), _brokers(reader)
    leader, leader_epoch, partition_epoch = reader.int32(), reader.int32(), reader.int32()
    return PartitionCreated(
        topic_id, index, replicas, isr, BrokerId(leader), LeaderEpoch(leader_epoch), partition_epoch
    )


def _read_config(reader: Reader) -> ConfigChanged:
    kind, resource = ResourceType(reader.int8()), reader.compact_string()
    return ConfigChanged(kind, resource, reader.compact_string(), reader.compact_nullable_string())


def _read_leader_change(reader: Reader) -> LeaderChanged:
    index, topic_id = reader.int32(), _topic_id(reader)
    isr: tuple[BrokerId, ...] | None = None
    leader: BrokerId | None = None
    for _ in range(reader.uvarint()):
        tag, size = reader.uvarint(), reader.uvarint()
        field = Reader(reader.take(size))
        if tag == _ISR_TAG:
            isr = _brokers(field)
        elif tag == _LEADER_TAG:
            leader = BrokerId(field.int32())
    if isr is None or leader is None:
        raise BadFrame("a leader change without leader or in-sync replicas")
    return LeaderChanged(topic_id, index, leader, isr)


def _read_producer_ids(reader: Reader) -> ProducerIdsReserved:
    return ProducerIdsReserved(BrokerId(reader.int32()), reader.int64(), reader.int64())


_READERS: dict[tuple[int, int], Callable[[Reader], MetadataFact]] = {
    (0, 1): _read_broker,
    (2, 0): _read_topic,
    (3, 0): _read_partition,
    (4, 0): _read_config,
    (5, 0): _read_leader_change,
    (9, 0): lambda reader: TopicRemoved(_topic_id(reader)),
    (15, 0): _read_producer_ids,
}
