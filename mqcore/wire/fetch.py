"""Codec: Fetch 4–18, written by hand. The response is a list of pieces, so records are neither copied nor read here.

Version 7 adds fetch sessions (KIP-227), 9 the leader epoch; 12 is flexible and adds what a follower needs to truncate
its log (KIP-595), 13 has topic ids (KIP-516), 15 moves the replica id into a tagged field.
Records in a response are never null, even with an error, because several clients fail on null.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence
from typing import Final, NamedTuple
from uuid import UUID

from mqcore.wire.fast_primitives import (
    BUFFERS,
    HOT_FAULTS,
    PARTITIONS_MAX,
    Piece,
    count_prefix,
    read_count,
    read_string,
    read_tags,
    read_topic,
    topic_id,
    topic_prefix,
    uvarint,
)
from mqcore.wire.frames import BadFrame, skip_tags

FETCH: Final = 1
READ_COMMITTED: Final = 1
NO_REPLICA: Final = -1
_FLEXIBLE_FROM: Final = 12
_TOPIC_IDS_FROM: Final = 13

_INT32 = struct.Struct(">i")
_LIMITS = struct.Struct(">iiib")  # max wait, min bytes, max bytes, isolation level
_SESSION = struct.Struct(">ii")
_REPLICA_STATE = struct.Struct(">iq")

_PARTITION = {  # index [, leader epoch], offset [, last epoch] [, log start], max bytes
    4: struct.Struct(">iqi"),
    **dict.fromkeys((5, 6, 7, 8), struct.Struct(">iqqi")),
    **dict.fromkeys((9, 10, 11), struct.Struct(">iiqqi")),
    **dict.fromkeys(range(12, 19), struct.Struct(">iiqiqi")),
}
_ANSWER = {  # index, error, high watermark, last stable offset [, log start]
    4: struct.Struct(">ihqq"),
    **dict.fromkeys(range(5, 19), struct.Struct(">ihqqq")),
}
_ABORTED = struct.Struct(">qq")
_EPOCH_END = struct.Struct(">iq")


class FetchPartition(NamedTuple):
    partition: int
    current_leader_epoch: int
    fetch_offset: int
    last_fetched_epoch: int
    log_start_offset: int
    max_bytes: int
    replica_directory_id: UUID | None = None
    high_watermark: int = 2**63 - 1


class FetchTopic(NamedTuple):
    name: str | None
    topic_id: UUID | None
    partitions: list[FetchPartition]


class ForgottenTopic(NamedTuple):
    name: str | None
    topic_id: UUID | None
    partitions: tuple[int, ...]


class FetchRequest(NamedTuple):
    max_wait_ms: int
    min_bytes: int
    max_bytes: int
    isolation_level: int
    session_id: int
    session_epoch: int
    topics: list[FetchTopic]
    forgotten: Sequence[ForgottenTopic] = ()
    rack_id: str = ""
    replica_id: int = NO_REPLICA  # −1: a consumer
    replica_epoch: int = -1
    cluster_id: str | None = None


class FetchedPartition(NamedTuple):
    """The answer for one partition. `aborted` is a list for read_committed, and None otherwise."""

    partition: int
    error_code: int = 0
    high_watermark: int = -1
    last_stable_offset: int = -1
    log_start_offset: int = -1
    records: Piece = b""
    aborted: Sequence[tuple[int, int]] | None = None  # (producer id, first offset)
    preferred_read_replica: int = -1
    diverging_epoch: tuple[int, int] | None = None  # (epoch, end offset), for followers, from version 12
    current_leader: tuple[int, int] | None = None  # (leader id, epoch), from version 12


def decode_fetch(version: int, frame: memoryview, position: int = 0) -> FetchRequest:
    """The request that starts at `position` of the frame, or `BadFrame`."""
    if not 4 <= version <= 18:
        raise BadFrame(f"Fetch has no version {version}")
    try:
        return _decode(version, frame, position)
    except HOT_FAULTS as error:
        raise BadFrame(f"Fetch request: {error}") from error


def _decode(version: int, frame: memoryview, position: int) -> FetchRequest:
    flexible = version >= _FLEXIBLE_FROM
    replica_id, session_id, session_epoch = NO_REPLICA, 0, -1
    if version < 15:
        replica_id = _INT32.unpack_from(frame, position)[0]
        position += 4
    max_wait_ms, min_bytes, max_bytes, isolation_level = _LIMITS.unpack_from(frame, position)
    position += 13
    if version >= 7:
        session_id, session_epoch = _SESSION.unpack_from(frame, position)
        position += 8
    topics, position = _read_topics(version, frame, position)
    forgotten: Sequence[ForgottenTopic] = ()
    if version >= 7:
        if flexible and frame[position] == 1:  # nearly always empty
            position += 1
        else:
            forgotten, position = _read_forgotten(version, frame, position)
    rack_id: str | None = None
    if version >= 11:
        rack_id, position = read_string(frame, position, flexible)
    request = FetchRequest(
        max_wait_ms, min_bytes, max_bytes, isolation_level, session_id, session_epoch,
        topics, forgotten, rack_id or "", replica_id,
    )  # fmt: skip
    if flexible and frame[position]:
        return _with_tags(version, request, read_tags(frame, position)[0])
    return request


def _read_topics(version: int, frame: memoryview, position: int) -> tuple[list[FetchTopic], int]:
    flexible, by_id = version >= _FLEXIBLE_FROM, version >= _TOPIC_IDS_FROM
    form = _PARTITION[version]
    size = form.size
    topics_count, position = read_count(frame, position, flexible, 3 if flexible else 6)
    topics, partitions_left = [], PARTITIONS_MAX
    for _ in range(topics_count):
        name, id, position = read_topic(frame, position, flexible, by_id)
        count, position = read_count(frame, position, flexible, size)
        partitions_left -= count
        if partitions_left < 0:
            raise BadFrame("too many partitions in one request")
        partitions = []
        for _ in range(count):
            fields = form.unpack_from(frame, position)
            position += size
            if flexible:
                partition = FetchPartition(*fields)
                if frame[position]:
                    tags, position = read_tags(frame, position)
                    partition = _partition_with_tags(version, partition, tags)
                else:
                    position += 1
            elif version >= 9:
                index, epoch, offset, start, most = fields
                partition = FetchPartition(index, epoch, offset, -1, start, most)
            elif version >= 5:
                index, offset, start, most = fields
                partition = FetchPartition(index, -1, offset, -1, start, most)
            else:
                index, offset, most = fields
                partition = FetchPartition(index, -1, offset, -1, -1, most)
            partitions.append(partition)
        topics.append(FetchTopic(name, id, partitions))
        if flexible:
            position = skip_tags(frame, position) if frame[position] else position + 1
    return topics, position


def _read_forgotten(version: int, frame: memoryview, position: int) -> tuple[list[ForgottenTopic], int]:
    flexible, by_id = version >= _FLEXIBLE_FROM, version >= _TOPIC_IDS_FROM
    topics_count, position = read_count(frame, position, flexible, 3 if flexible else 6)
    forgotten, partitions_left = [], PARTITIONS_MAX
    for _ in range(topics_count):
        name, id, position = read_topic(frame, position, flexible, by_id)
        count, position = read_count(frame, position, flexible, 4)
        partitions_left -= count
        if partitions_left < 0:
            raise BadFrame("too many partitions in one request")
        partitions = struct.unpack_from(f">{count}i", frame, position)
        position += 4 * count
        forgotten.append(ForgottenTopic(name, id, partitions))
        if flexible:
            position = skip_tags(frame, position)
    return forgotten, position


def _with_tags(version: int, request: FetchRequest, tags: dict[int, memoryview]) -> FetchRequest:
    if 0 in tags:
        request = request._replace(cluster_id=read_string(tags[0], 0, True)[0])
    if 1 in tags and version >= 15:
        replica_id, replica_epoch = _REPLICA_STATE.unpack_from(tags[1])
        skip_tags(tags[1], _REPLICA_STATE.size)
        request = request._replace(replica_id=replica_id, replica_epoch=replica_epoch)
    return request


def _partition_with_tags(version: int, partition: FetchPartition, tags: dict[int, memoryview]) -> FetchPartition:
    if 0 in tags and version >= 17:
        if len(tags[0]) != 16:
            raise BadFrame("replica directory id is not a UUID")
        partition = partition._replace(replica_directory_id=topic_id(bytes(tags[0])))
    if 1 in tags and version >= 18:
        partition = partition._replace(high_watermark=struct.unpack(">q", tags[1])[0])
    return partition


def encode_fetch_response(
    version: int,
    topics: Sequence[tuple[str | None, UUID | None, Sequence[FetchedPartition]]],
    *,
    throttle_time_ms: int = 0,
    error_code: int = 0,
    session_id: int = 0,
) -> list[Piece]:
    """The response without its head. Topics are (name, topic id, answers), as the request named them."""
    flexible, by_id = version >= _FLEXIBLE_FROM, version >= _TOPIC_IDS_FROM
    form = _ANSWER[version]
    fields = 5 if version >= 5 else 4
    pieces: list[Piece] = []
    out = bytearray(_INT32.pack(throttle_time_ms))
    if version >= 7:
        out += struct.pack(">hi", error_code, session_id)
    out += count_prefix(len(topics), flexible)
    for name, id, partitions in topics:
        out += topic_prefix(name, id, flexible, by_id)
        out += count_prefix(len(partitions), flexible)
        for partition in partitions:
            out += form.pack(*partition[:fields])
            _put_aborted(out, partition.aborted, flexible)
            if version >= 11:
                out += _INT32.pack(partition.preferred_read_replica)
            records = partition.records
            length = len(records) if isinstance(records, BUFFERS) else records.length
            out += uvarint(length + 1) if flexible else _INT32.pack(length)
            if length:
                pieces.append(out)
                pieces.append(records)
                out = bytearray()
            if flexible:
                if partition.diverging_epoch is None and partition.current_leader is None:
                    out.append(0)
                else:
                    _put_tags(out, partition)
        if flexible:
            out.append(0)
    if flexible:
        out.append(0)
    if out:
        pieces.append(out)
    return pieces


def _put_aborted(out: bytearray, aborted: Sequence[tuple[int, int]] | None, flexible: bool) -> None:
    if aborted is None:
        out += b"\x00" if flexible else b"\xff\xff\xff\xff"
        return
    out += count_prefix(len(aborted), flexible)
    for producer_id, first_offset in aborted:
        out += _ABORTED.pack(producer_id, first_offset)
        if flexible:
            out.append(0)


def _put_tags(out: bytearray, partition: FetchedPartition) -> None:
    tags = []
    if partition.diverging_epoch is not None:
        tags.append(b"\x00\x0d" + _EPOCH_END.pack(*partition.diverging_epoch) + b"\x00")
    if partition.current_leader is not None:
        tags.append(b"\x01\x09" + _SESSION.pack(*partition.current_leader) + b"\x00")
    out.append(len(tags))
    out += b"".join(tags)
