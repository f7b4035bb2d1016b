"""Codec: the records of `__consumer_offsets`, in Kafka's own schemas, and which partition a group belongs to.

    key, version 0–1   group, topic, partition          value, versions 0–4   one committed offset
    key, version 2     group                            value, versions 0–4   the members of one generation

Both begin with their version as int16, and a null value is a tombstone. This broker writes key 1 with value 3 and key 2
with value 3, as Kafka 4 does for classic groups. It reads all versions, so it can take over a folder of Kafka's. Keys
from version 3 on belong to newer kinds of groups and are skipped. Version 4 values are flexible (compact, with tags).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from mqcore.groups.facts import (
    CommittedOffset,
    GenerationAssigned,
    GroupEmptied,
    GroupFact,
    GroupRemoved,
    KeptFact,
    OffsetCommitted,
    OffsetRemoved,
    StoredMember,
)
from mqcore.identity import NO_LEADER_EPOCH, LeaderEpoch, Millis, Offset
from mqcore.wire.frames import BadFrame
from mqcore.wire.primitives import Reader, Writer

_OFFSET_KEYS = (0, 1)
_OFFSET_KEY = 1
_GROUP_KEY = 2
_OFFSET_VALUE = 3
_GROUP_VALUE = 3
_LAST_VALUE = 4
_NEVER = -1


class BadRecord(ValueError):
    """A record of `__consumer_offsets` that is malformed or has an unknown version."""


class GroupRecord(NamedTuple):
    group_id: str
    fact: KeptFact


def partition_of(group_id: str, partitions: int) -> int:
    """Kafka's choice: the absolute value of Java's String.hashCode over UTF-16 units. −2³¹ has none and counts as 0."""
    units = group_id.encode("utf-16-be")
    code = 0
    for high, low in zip(units[::2], units[1::2], strict=True):
        code = (code * 31 + (high << 8 | low)) & 0xFFFFFFFF
    magnitude = min(code, (1 << 32) - code) & 0x7FFFFFFF
    return magnitude % partitions


# ── writing ──────────────────────────────────────────────────────────────────────────────────────────


def encode(group_id: str, fact: GroupFact) -> tuple[bytes, bytes | None] | None:
    """Key and value of a record, or None for a fact that is not kept."""
    match fact:
        case OffsetCommitted(topic, partition, committed):
            return _offset_key(group_id, topic, partition), _offset_value(committed)
        case OffsetRemoved(topic, partition):
            return _offset_key(group_id, topic, partition), None
        case GenerationAssigned():
            return _group_key(group_id), _group_value(fact)
        case GroupEmptied(generation, protocol_type, at_wall_ms):
            return _group_key(group_id), _header(protocol_type, generation, None, None, at_wall_ms, 0).finish()
        case GroupRemoved():
            return _group_key(group_id), None
        case _:
            return None


def _offset_key(group_id: str, topic: str, partition: int) -> bytes:
    writer = Writer()
    writer.int16(_OFFSET_KEY)
    writer.string(group_id)
    writer.string(topic)
    writer.int32(partition)
    return writer.finish()


def _offset_value(committed: CommittedOffset) -> bytes:
    # Only version 1 can store when the offset expires, and it has no leader epoch. Kafka does the same.
    expires = committed.expire_wall_ms is not None
    writer = Writer()
    writer.int16(1 if expires else _OFFSET_VALUE)
    writer.int64(committed.offset)
    if not expires:
        writer.int32(committed.leader_epoch)
    writer.string(committed.metadata)
    writer.int64(committed.commit_wall_ms)
    if committed.expire_wall_ms is not None:
        writer.int64(committed.expire_wall_ms)
    return writer.finish()


def _group_key(group_id: str) -> bytes:
    writer = Writer()
    writer.int16(_GROUP_KEY)
    writer.string(group_id)
    return writer.finish()


def _group_value(fact: GenerationAssigned) -> bytes:
    count = len(fact.members)
    writer = _header(fact.protocol_type, fact.generation, fact.protocol, fact.leader, fact.at_wall_ms, count)
    for member in fact.members:
        writer.string(member.member_id)
        writer.nullable_string(member.instance_id)
        writer.string(member.client_id)
        writer.string(member.client_host)
        writer.int32(member.rebalance_timeout_ms)
        writer.int32(member.session_timeout_ms)
        writer.binary(member.subscription)
        writer.binary(member.assignment)
    return writer.finish()


def _header(
    protocol_type: str, generation: int, protocol: str | None, leader: str | None, since_wall_ms: int, members: int
) -> Writer:
    writer = Writer()
    writer.int16(_GROUP_VALUE)
    writer.string(protocol_type)
    writer.int32(generation)
    writer.nullable_string(protocol)
    writer.nullable_string(leader)
    writer.int64(since_wall_ms)
    writer.int32(members)
    return writer


# ── reading ──────────────────────────────────────────────────────────────────────────────────────────


def decode(key: bytes | None, value: bytes | None) -> GroupRecord | None:
    """The content of a record; None if it belongs to another kind of group. Raises `BadRecord` if it is malformed."""
    if key is None:
        raise BadRecord("the record has no key")
    try:
        reader = Reader(key)
        version = reader.int16()
        if version in _OFFSET_KEYS:
            group_id, topic, partition = reader.string(), reader.string(), reader.int32()
            if value is None:
                return GroupRecord(group_id, OffsetRemoved(topic, partition))
            return GroupRecord(group_id, OffsetCommitted(topic, partition, _read_offset(Reader(value))))
        if version == _GROUP_KEY:
            group_id = reader.string()
            return GroupRecord(group_id, GroupRemoved() if value is None else _read_group(Reader(value)))
    except BadFrame as bad:
        raise BadRecord(str(bad)) from bad
    return None


def _read_offset(reader: Reader) -> CommittedOffset:
    version = _version(reader)
    offset = Offset(reader.int64())
    leader_epoch = LeaderEpoch(reader.int32()) if version >= 3 else NO_LEADER_EPOCH
    metadata = _strings(reader, version)[0]()
    commit_ms = Millis(reader.int64())
    expire_ms = reader.int64() if version == 1 else _NEVER
    return CommittedOffset(
        offset, leader_epoch, metadata, commit_ms, None if expire_ms == _NEVER else Millis(expire_ms)
    )


def _read_group(reader: Reader) -> GenerationAssigned | GroupEmptied:
    version = _version(reader)
    string, nullable_string = _strings(reader, version)
    protocol_type = string()
    generation = reader.int32()
    protocol, leader = nullable_string(), nullable_string()
    since_ms = Millis(reader.int64() if version >= 2 else _NEVER)
    array = reader.array if version < _LAST_VALUE else reader.compact_array
    members = tuple(array(lambda: _read_member(reader, version), 8))
    if not members or protocol is None or leader is None:
        return GroupEmptied(generation, protocol_type, since_ms)
    return GenerationAssigned(generation, protocol_type, protocol, leader, members, since_ms)


def _read_member(reader: Reader, version: int) -> StoredMember:
    string, nullable_string = _strings(reader, version)
    binary = reader.binary if version < _LAST_VALUE else reader.compact_binary
    member_id = string()
    instance_id = nullable_string() if version >= 3 else None
    client_id, client_host = string(), string()
    rebalance_timeout_ms = reader.int32() if version >= 1 else None
    session_timeout_ms = reader.int32()
    subscription, assignment = binary(), binary()
    if version >= _LAST_VALUE:
        reader.skip_tags()
    if rebalance_timeout_ms is None:
        rebalance_timeout_ms = session_timeout_ms
    return StoredMember(
        member_id,
        instance_id,
        client_id,
        client_host,
        session_timeout_ms,
        rebalance_timeout_ms,
        subscription,
        assignment,
    )


def _version(reader: Reader) -> int:
    version = reader.int16()
    if not 0 <= version <= _LAST_VALUE:
        raise BadRecord(f"the value has the unknown version {version}")
    return version


def _strings(reader: Reader, version: int) -> tuple[Callable[[], str], Callable[[], str | None]]:
    if version < _LAST_VALUE:
        return reader.string, reader.nullable_string
    return reader.compact_string, reader.compact_nullable_string
