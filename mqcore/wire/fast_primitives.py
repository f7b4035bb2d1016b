"""Codec: primitives for the two hand-written messages, Produce and Fetch.

They run for every request on the hot path, so they are functions over a memoryview and a position instead of methods
of `Reader` (reader.py), whose rules they follow. They may raise `HOT_FAULTS`, which their callers turn into
`BadFrame`. Every length is compared with the end before it is used, because slicing past the end raises nothing.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable
from functools import lru_cache
from typing import Final, Protocol
from uuid import UUID

from mqcore.identity import NO_TOPIC_ID
from mqcore.wire.batches import Buffer
from mqcore.wire.frames import STRING_BYTES_MAX, TAGS_MAX, BadFrame, read_uvarint
from mqcore.wire.primitives import ELEMENTS_MAX

HOT_FAULTS: Final = (IndexError, struct.error, UnicodeDecodeError)

BUFFERS: Final = (bytes, bytearray, memoryview)  # isinstance is faster with a tuple than with a union

PARTITIONS_MAX: Final = ELEMENTS_MAX

_INT16 = struct.Struct(">h")
_INT32 = struct.Struct(">i")


class SliceLike(Protocol):
    """Bytes that are not read yet. The server reads them piece by piece when the socket has room."""

    @property
    def length(self) -> int: ...

    def read_part(self, start: int, length: int) -> bytes: ...


Piece = Buffer | SliceLike


def size_of(pieces: Iterable[Piece]) -> int:
    """The length of a response that consists of pieces."""
    size = 0
    for piece in pieces:
        size += len(piece) if isinstance(piece, BUFFERS) else piece.length
    return size


def read_count(data: memoryview, position: int, flexible: bool, least: int) -> tuple[int, int]:
    """(count, next position) of an array whose elements take at least `least` bytes each."""
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
    if count < 0 or count * least > len(data) - position or count > PARTITIONS_MAX:
        raise BadFrame(f"array of {count} elements does not fit into {len(data) - position} bytes")
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
        raise BadFrame(f"string of {length} bytes, the limit is {STRING_BYTES_MAX}")
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
        raise BadFrame("a topic has no name")
    return name, None, position


def read_tags(frame: memoryview, position: int) -> tuple[dict[int, memoryview], int]:
    """({tag: content}, next position)."""
    count, position = read_uvarint(frame, position)
    if count > TAGS_MAX:
        raise BadFrame(f"{count} tagged fields, the limit is {TAGS_MAX}")
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
    """Cached, because creating a UUID takes longer than decoding the rest of a request, and clients repeat the same
    few."""
    return UUID(bytes=raw)


@lru_cache(maxsize=1024)
def topic_prefix(name: str | None, id: UUID | None, flexible: bool, by_id: bool) -> bytes:
    """How a topic is named in a response."""
    if by_id:
        return (id or NO_TOPIC_ID).bytes
    assert name is not None, "this version names topics"
    encoded = name.encode()
    return (uvarint(len(encoded) + 1) if flexible else _INT16.pack(len(encoded))) + encoded


@lru_cache(maxsize=1024)
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
