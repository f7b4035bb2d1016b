"""Codec: Produce, written by hand so that records are not copied. Versions 3–13 are served.

The records of a partition are a view into the frame. It is writable if the frame is, because the broker stamps offsets
in place. Versions 0–2 carry message sets from before 2017; they are only decoded far enough to refuse each partition.
Version 9 is flexible, 13 has topic ids (KIP-516).
"""

from __future__ import annotations

import struct
from collections.abc import Sequence
from typing import Final, NamedTuple
from uuid import UUID

from mqcore.wire.fast_primitives import (
    HOT_FAULTS,
    PARTITIONS_MAX,
    count_prefix,
    read_count,
    read_string,
    read_topic,
    topic_prefix,
    uvarint,
)
from mqcore.wire.frames import BadFrame, read_uvarint, skip_tags

PRODUCE: Final = 0
FIRST_SERVED: Final = 3
_TRANSACTIONAL_FROM: Final = 3
_FLEXIBLE_FROM: Final = 9
_TOPIC_IDS_FROM: Final = 13

_ACKS_TIMEOUT = struct.Struct(">hi")
_INT32 = struct.Struct(">i")
_int32_from = _INT32.unpack_from
_index_length_from = struct.Struct(">ii").unpack_from

_ANSWER = {  # version → index, error, base offset [, log append time [, log start offset]]
    **dict.fromkeys((0, 1), struct.Struct(">ihq")),
    **dict.fromkeys((2, 3, 4), struct.Struct(">ihqq")),
    **dict.fromkeys(range(5, 14), struct.Struct(">ihqqq")),
}


class ProducePartition(NamedTuple):
    partition: int
    records: memoryview  # empty if the client sent null


class ProduceTopic(NamedTuple):
    name: str | None
    topic_id: UUID | None
    partitions: list[ProducePartition]


class ProduceRequest(NamedTuple):
    transactional_id: str | None
    acks: int
    timeout_ms: int
    topics: list[ProduceTopic]


class ProducedPartition(NamedTuple):
    """The answer for one partition: an offset or an error."""

    partition: int
    error_code: int = 0
    base_offset: int = -1
    log_append_time_ms: int = -1
    log_start_offset: int = -1
    error_message: str | None = None
    record_errors: Sequence[tuple[int, str | None]] = ()  # (index in the batch, message)


def decode_produce(version: int, frame: memoryview, position: int = 0) -> ProduceRequest:
    """The request that starts at `position` of the frame, or `BadFrame`."""
    if not 0 <= version <= 13:
        raise BadFrame(f"Produce has no version {version}")
    try:
        return _decode(version, frame, position)
    except HOT_FAULTS as error:
        raise BadFrame(f"Produce request: {error}") from error


def _decode(version: int, frame: memoryview, position: int) -> ProduceRequest:
    flexible, by_id, end = version >= _FLEXIBLE_FROM, version >= _TOPIC_IDS_FROM, len(frame)
    transactional_id = None
    if version >= _TRANSACTIONAL_FROM:
        transactional_id, position = read_string(frame, position, flexible)
    acks, timeout_ms = _ACKS_TIMEOUT.unpack_from(frame, position)
    topics_count, position = read_count(frame, position + 6, flexible, 3 if flexible else 6)
    topics, partitions_left = [], PARTITIONS_MAX
    for _ in range(topics_count):
        name, topic_id, position = read_topic(frame, position, flexible, by_id)
        count, position = read_count(frame, position, flexible, 6 if flexible else 8)
        partitions_left -= count
        if partitions_left < 0:
            raise BadFrame("too many partitions in one request")
        partitions = []
        for _ in range(count):
            if flexible:
                (index,) = _int32_from(frame, position)
                length, position = read_uvarint(frame, position + 4)
                length -= 1
            else:
                index, length = _index_length_from(frame, position)
                position += 8
            start = position
            if length > 0:
                position += length
            if position > end or length < -1:
                raise BadFrame(f"records of {length} bytes run over the end")
            partitions.append(ProducePartition(index, frame[start:position]))
            if flexible:
                position = skip_tags(frame, position) if frame[position] else position + 1
        topics.append(ProduceTopic(name, topic_id, partitions))
        if flexible:
            position = skip_tags(frame, position) if frame[position] else position + 1
    if flexible:
        skip_tags(frame, position)
    return ProduceRequest(transactional_id, acks, timeout_ms, topics)


def encode_produce_response(
    version: int,
    topics: Sequence[tuple[str | None, UUID | None, Sequence[ProducedPartition]]],
    throttle_time_ms: int = 0,
) -> bytes:
    """The response without its head. Topics are (name, topic id, answers), as the request named them."""
    flexible, by_id = version >= _FLEXIBLE_FROM, version >= _TOPIC_IDS_FROM
    form = _ANSWER[version]
    fields = 3 + (version >= 2) + (version >= 5)
    out = bytearray(count_prefix(len(topics), flexible))
    for name, topic_id, partitions in topics:
        out += topic_prefix(name, topic_id, flexible, by_id)
        out += count_prefix(len(partitions), flexible)
        for partition in partitions:
            out += form.pack(*partition[:fields])
            if version >= 8:
                if partition.error_message is None and not partition.record_errors:
                    out += b"\x01\x00\x00" if flexible else b"\x00\x00\x00\x00\xff\xff"
                else:
                    _put_errors(out, partition, flexible)
        if flexible:
            out.append(0)
    if version >= 1:
        out += _INT32.pack(throttle_time_ms)
    if flexible:
        out.append(0)
    return bytes(out)


def _put_errors(out: bytearray, partition: ProducedPartition, flexible: bool) -> None:
    out += count_prefix(len(partition.record_errors), flexible)
    for index, message in partition.record_errors:
        out += _INT32.pack(index)
        _put_message(out, message, flexible)
        if flexible:
            out.append(0)
    _put_message(out, partition.error_message, flexible)
    if flexible:
        out.append(0)


def _put_message(out: bytearray, message: str | None, flexible: bool) -> None:
    if message is None:
        out += b"\x00" if flexible else b"\xff\xff"
    else:
        encoded = message.encode()
        if len(encoded) > 0x7FFF:  # longer than a string may be: truncate it, but not within a character
            encoded = encoded[:0x7FFF].decode(errors="ignore").encode()
        out += uvarint(len(encoded) + 1) if flexible else struct.pack(">h", len(encoded))
        out += encoded
