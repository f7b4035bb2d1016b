"""Codec: the 61-byte header of a v2 record batch, read and stamped without touching its records.

    offset size field                    offset size field
    0      8    base offset              23     4    last offset delta
    8      4    length (of the rest)    27     8    base timestamp
    12     4    partition leader epoch   35     8    max timestamp
    16     1    magic (2)                43     8    producer id
    17     4    CRC-32C of 21…end        51     2    producer epoch
    21     2    attributes               53     4    base sequence
                                         57     4    records count

The CRC does not cover the base offset and the leader epoch, so the broker stamps both in place without recomputing it.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from typing import NamedTuple

from mqcore.wire.checksum import crc32c

Buffer = bytes | bytearray | memoryview

HEADER_BYTES = 61
LENGTH_OVERHEAD = 12  # base offset and length itself
BATCH_LENGTH_MIN = HEADER_BYTES - LENGTH_OVERHEAD
CRC_START = 21
MAGIC = 2

COMPRESSION_MASK = 0x07
LOG_APPEND_TIME = 0x08
TRANSACTIONAL = 0x10
CONTROL = 0x20
DELETE_HORIZON = 0x40

_HEADER = struct.Struct(">qiibIhiqqqhii")
_PREFIX = struct.Struct(">qi")
_STAMP_OFFSET = struct.Struct(">q")
_STAMP_EPOCH = struct.Struct(">i")
_STAMP_ATTRIBUTES = struct.Struct(">h")
_STAMP_CRC = struct.Struct(">I")
_STAMP_MAX_TIMESTAMP = struct.Struct(">q")


class BadBatch(ValueError):
    """The bytes are not a valid batch; the message says what is wrong."""


class BatchHeader(NamedTuple):
    base_offset: int
    length: int
    leader_epoch: int
    magic: int
    crc: int
    attributes: int
    last_offset_delta: int
    base_timestamp: int
    max_timestamp: int
    producer_id: int
    producer_epoch: int
    base_sequence: int
    records_count: int

    @property
    def size(self) -> int:
        """All bytes of the batch, header included."""
        return self.length + LENGTH_OVERHEAD

    @property
    def last_offset(self) -> int:
        return self.base_offset + self.last_offset_delta

    @property
    def next_offset(self) -> int:
        return self.base_offset + self.last_offset_delta + 1

    @property
    def codec(self) -> int:
        return self.attributes & COMPRESSION_MASK

    @property
    def is_control(self) -> bool:
        return bool(self.attributes & CONTROL)

    @property
    def is_transactional(self) -> bool:
        return bool(self.attributes & TRANSACTIONAL)


def read_header(data: Buffer, position: int = 0) -> BatchHeader:
    """The header at `position`; `BadBatch` if the bytes are too few or its fixed fields are invalid."""
    try:
        header = BatchHeader._make(_HEADER.unpack_from(data, position))
    except struct.error as error:
        raise BadBatch("too few bytes for a batch header") from error
    if header.magic != MAGIC:
        raise BadBatch(f"magic {header.magic}, expected {MAGIC}")
    if header.length < BATCH_LENGTH_MIN:
        raise BadBatch(f"length {header.length} is below {BATCH_LENGTH_MIN}")
    return header


def check_crc(data: Buffer, header: BatchHeader, position: int = 0) -> None:
    """`BadBatch` unless the batch is complete and its CRC is right."""
    end = position + header.length + LENGTH_OVERHEAD
    if end > len(data):
        raise BadBatch(f"batch of {header.size} bytes is incomplete")
    if crc32c(memoryview(data)[position + CRC_START : end]) != header.crc:
        raise BadBatch("wrong CRC")


def read_headers(data: Buffer) -> Iterator[tuple[int, BatchHeader]]:
    """(position, header) of every complete batch; an incomplete one at the end is left out."""
    position, limit = 0, len(data)
    while position + HEADER_BYTES <= limit:
        header = read_header(data, position)
        if position + header.size > limit:
            return
        yield position, header
        position += header.size


def stamp(data: bytearray | memoryview, base_offset: int, leader_epoch: int, position: int = 0) -> None:
    """Write the offset and the leader epoch of the batch into it. The CRC covers neither."""
    _STAMP_OFFSET.pack_into(data, position, base_offset)
    _STAMP_EPOCH.pack_into(data, position + 12, leader_epoch)


def stamp_append_time(data: bytearray | memoryview, header: BatchHeader, now_ms: int, position: int = 0) -> BatchHeader:
    """Mark the batch as LogAppendTime at `now_ms`. This changes the CRC."""
    attributes = header.attributes | LOG_APPEND_TIME
    _STAMP_ATTRIBUTES.pack_into(data, position + 21, attributes)
    _STAMP_MAX_TIMESTAMP.pack_into(data, position + 35, now_ms)
    crc = crc32c(memoryview(data)[position + CRC_START : position + header.size])
    _STAMP_CRC.pack_into(data, position + 17, crc)
    return header._replace(attributes=attributes, max_timestamp=now_ms, crc=crc)
