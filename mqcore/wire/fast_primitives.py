"""Codec: what the two hand-written messages, Produce and Fetch, share.

These run per request on the hot path, so they are functions over a memoryview and a position instead of methods of
a `Reader` (primitives.py); the rules are its rules. They may let `HOT_FAULTS` escape; their callers turn those into
`BadFrame`. Every length is compared with the end before it is used, since a slice never complains.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable
from functools import lru_cache
from typing import Final, Protocol
from uuid import UUID

from mqcore.identity import NO_TOPIC_ID
from mqcore.wire.batches import Buffer
from mqcore.wire.frames import MAX_TAGS, STRING_BYTES_MAX, BadFrame, read_uvarint
from mqcore.wire.primitives import MAX_ELEMENTS

HOT_FAULTS: Final = (IndexError, struct.error, UnicodeDecodeError)

BUFFERS: Final = (bytes, bytearray, memoryview)  # isinstance is quicker with a tuple than with the union

MAX_PARTITIONS: Final = MAX_ELEMENTS

_INT16 = struct.Struct(">h")
_INT32 = struct.Struct(">i")


class SliceLike(Protocol):
    """Bytes that are not read yet: the server reads them piecemeal when the socket has room."""

    @property
    def length(self) -> int: ...

    def read_part(self, start: int, length: int) -> bytes: ...


Piece = Buffer | SliceLike


def size_of(pieces: Iterable[Piece]) -> int:
    """All bytes of a response in pieces."""
    size = 0
    for piece in pieces:
        size += len(piece) if isinstance(piece, BUFFERS) else piece.length
    return size


def read_count(data: memoryview, position: int, flexible: bool, least: int) -> tuple[int, int]:
    """(count, next position) of an array whose elements take at least `least` bytes."""
    if flexible:
        count = data[position]
        if count < 0x80:
            position += 1
        else:
            count, position = read_uvarint(data, position)
        count -= 1
    else:
        count = _INT32.unpack_from(data, position)[0]
        position += 4
    if count < 0 or count * least > len(data) - position or count > MAX_PARTITIONS:
        raise BadFrame(f"array of {count} elements in {len(data) - position} bytes")
    return count, position


def read_string(data: memoryview, position: int, flexible: bool) -> tuple[str | None, int]:
    """(string or None, next position)."""
    if flexible:
        length = data[position]
        if length < 0x80:
            position += 1
        else:
            length, position = read_uvarint(data, position)
        length -= 1
    else:
        length = _INT16.unpack_from(data, position)[0]
        position += 2
    if length < 0:
        if length == -1:
            return None, position
        raise BadFrame(f"string of length {length}")
    if length > STRING_BYTES_MAX:
        raise BadFrame(f"string of {length} bytes, at most {STRING_BYTES_MAX} are read")
    end = position + length
    if end > len(data):
        raise BadFrame("string runs over the end")
    return str(data[position:end], "utf-8"), end


def read_topic(data: memoryview, position: int, flexible: bool, by_id: bool) -> tuple[str | None, UUID | None, int]:
    """(name, topic id, next position): one of the two is None, and the zero UUID is `NO_TOPIC_ID`."""
    if by_id:
        end = position + 16
        if end > len(data):
            raise BadFrame("topic id runs over the end")
        return None, topic_id(bytes(data[position:end])), end
    name, position = read_string(data, position, flexible)
    if name is None:
        raise BadFrame("topic without a name")
    return name, None, position


def read_tags(frame: memoryview, position: int) -> tuple[dict[int, memoryview], int]:
    """({tag: content}, next position)."""
    count, position = read_uvarint(frame, position)
    if count > MAX_TAGS:
        raise BadFrame(f"{count} tagged fields, at most {MAX_TAGS} are read")
    tags = {}
    for _ in range(count):
        tag, position = read_uvarint(frame, position)
        length, position = read_uvarint(frame, position)
        tags[tag] = frame[position : position + length]
        position += length
        if position > len(frame):
            raise BadFrame("tagged field runs over the end")
    return tags, position


@lru_cache(maxsize=1024)
def topic_id(raw: bytes) -> UUID:
    """Making a UUID takes longer than decoding the rest of a request; a client asks for the same few again."""
    return UUID(bytes=raw)


@lru_cache(maxsize=1024)
def topic_prefix(name: str | None, id: UUID | None, flexible: bool, by_id: bool) -> bytes:
    """How a topic is named in a response."""
    if by_id:
        return (id or NO_TOPIC_ID).bytes
    assert name is not None, "this version names topics"
    encoded = name.encode()
    return (uvarint(len(encoded) + 1) if flexible else _INT16.pack(len(encoded))) + encoded


def count_prefix(count: int, flexible: bool) -> bytes:
    return uvarint(count + 1) if flexible else _INT32.pack(count)


def uvarint(value: int) -> bytes:
    if value < 0x80:
        return bytes((value,))
    encoded = bytearray()
    while value > 0x7F:
        encoded.append(value & 0x7F | 0x80)
        value >>= 7
    encoded.append(value)
    return bytes(encoded)
