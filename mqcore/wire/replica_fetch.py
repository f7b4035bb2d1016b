"""Codec: a follower's side of Fetch 17, the one version in which brokers copy from each other.

Records in a decoded response are views into its frame. A request belongs to a fetch session (KIP-227).
"""

from __future__ import annotations

import struct
from collections.abc import Mapping, Sequence
from typing import Final, NamedTuple
from uuid import UUID

from mqcore.identity import BrokerId
from mqcore.wire.fast_primitives import HOT_FAULTS, read_count, read_tags, read_topic, uvarint
from mqcore.wire.fetch import FetchedPartition, FetchTopic
from mqcore.wire.frames import BadFrame, read_uvarint, skip_tags

VERSION: Final = 17

_HEAD = struct.Struct(">iiibii")  # max wait, min bytes, max bytes, isolation level, session id, session epoch
_PARTITION = struct.Struct(">iiqiqi")  # index, leader epoch, offset, last epoch, log start, max bytes
_REPLICA_STATE = struct.Struct(">iq")
_ANSWER = struct.Struct(">ihqqq")  # index, error, high watermark, last stable offset, log start
_ABORTED_BYTES = 17  # with its tags
_EPOCH_END = struct.Struct(">iq")
_CURRENT_LEADER = struct.Struct(">ii")
_NO_RACK = b"\x01"


class FetchLimits(NamedTuple):
    """`bytes_max` bounds the whole response; each partition has a bound of its own."""

    wait_ms: int
    bytes_max: int


class Session(NamedTuple):
    """`epoch` numbers the requests of a session; 0 opens one."""

    id: int = 0
    epoch: int = 0


class FetchResponse(NamedTuple):
    error_code: int
    session_id: int
    topics: list[tuple[UUID, list[FetchedPartition]]]


def encode_replica_fetch(
    replica: BrokerId,
    broker_epoch: int,
    limits: FetchLimits,
    session: Session,
    topics: Sequence[FetchTopic],
    forgotten: Mapping[UUID, Sequence[int]],
) -> bytes:
    """The body of a request that is answered as soon as there is one byte to copy."""
    out = bytearray(_HEAD.pack(limits.wait_ms, 1, limits.bytes_max, 0, *session))
    out += uvarint(len(topics) + 1)
    for _, id, partitions in topics:
        assert id is not None, "this version names topics by id"
        out += id.bytes
        out += uvarint(len(partitions) + 1)
        for partition in partitions:
            out += _PARTITION.pack(*partition[:6])
            out.append(0)
        out.append(0)
    out += uvarint(len(forgotten) + 1)
    for topic_id, indexes in forgotten.items():
        out += topic_id.bytes + uvarint(len(indexes) + 1) + struct.pack(f">{len(indexes)}ix", *indexes)
    out += _NO_RACK
    out += b"\x01\x01" + uvarint(_REPLICA_STATE.size + 1) + _REPLICA_STATE.pack(replica, broker_epoch) + b"\x00"
    return bytes(out)


def decode_fetch_response(frame: memoryview) -> FetchResponse:
    """The body of a response, or `BadFrame`."""
    try:
        return _decode(frame)
    except HOT_FAULTS as error:
        raise BadFrame(f"Fetch response: {error}") from error


def _decode(frame: memoryview) -> FetchResponse:
    _, error_code, session_id = struct.unpack_from(">ihi", frame)  # the first one is the throttle time
    topics_count, position = read_count(frame, 10, True, 18)
    topics = []
    for _ in range(topics_count):
        _, id, position = read_topic(frame, position, True, True)
        assert id is not None
        count, position = read_count(frame, position, True, _ANSWER.size + 6)
        partitions = []
        for _ in range(count):
            partition, position = _read_partition(frame, position)
            partitions.append(partition)
        topics.append((id, partitions))
        position = skip_tags(frame, position)
    skip_tags(frame, position)
    return FetchResponse(error_code, session_id, topics)


def _read_partition(frame: memoryview, position: int) -> tuple[FetchedPartition, int]:
    index, error, high_watermark, stable, log_start = _ANSWER.unpack_from(frame, position)
    aborted_count, position = read_uvarint(frame, position + _ANSWER.size)
    position += max(0, aborted_count - 1) * _ABORTED_BYTES + 4  # and the preferred read replica
    length, start = read_uvarint(frame, position)
    position = start + max(0, length - 1)
    if position > len(frame):
        raise BadFrame(f"records of {length - 1} bytes run over the end")
    tags, position_after = read_tags(frame, position)
    diverging = _EPOCH_END.unpack_from(tags[0]) if 0 in tags else None
    leader = _CURRENT_LEADER.unpack_from(tags[1]) if 1 in tags else None
    records = frame[start:position]
    answer = FetchedPartition(
        index, error, high_watermark, stable, log_start, records, diverging_epoch=diverging, current_leader=leader
    )
    return answer, position_after
