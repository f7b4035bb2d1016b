"""Codec: the records inside a v2 batch, for the code that reads them: compaction, lookups by time, internal topics.

    length varint · attributes int8 (unused) · timestamp delta varlong · offset delta varint
    key length varint, key · value length varint, value · headers count varint, (length, name, length, value)…

A length of −1 is null. Everything after the batch header is compressed as a whole. The log has already checked the CRC
(`batches.check_crc`), but a client computed it, so every number is checked before it is used.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator, Sequence
from typing import Final, NamedTuple

from mqcore.wire.batches import (
    BATCH_LENGTH_MIN,
    COMPRESSION_MASK,
    CRC_START,
    HEADER_BYTES,
    LOG_APPEND_TIME,
    MAGIC,
    BadBatch,
    BatchHeader,
    Buffer,
    read_header,
)
from mqcore.wire.checksum import crc32c
from mqcore.wire.compression import compress, decompress

OWN_BATCH_BYTES_MAX: Final = 64 * 1024 * 1024
DECOMPRESSED_BYTES_MAX: Final = 8 * 1024 * 1024
"""A batch may expand to this size when a client's request makes us read it, or to its own size if that is larger."""

RECORD_BYTES_MIN: Final = 7

NO_TIMESTAMP: Final = -1
TIMESTAMP_MIN: Final = -(2**63)
TIMESTAMP_MAX: Final = 2**63 - 1


class BatchTooLarge(ValueError):
    """The records would make a batch that `read_records` refuses by default."""


_PREFIX = struct.Struct(">qiibI")
_REST = struct.Struct(">hiqqqhii")


class Record(NamedTuple):
    offset: int
    timestamp: int
    key: bytes | None
    value: bytes | None
    headers: tuple[tuple[str, bytes | None], ...] = ()


def request_limit(header: BatchHeader) -> int:
    """`limit_bytes` for reading a batch while a client waits."""
    return max(header.size, DECOMPRESSED_BYTES_MAX)


def read_records(
    batch: Buffer, header: BatchHeader | None = None, *, limit_bytes: int = OWN_BATCH_BYTES_MAX
) -> list[Record]:
    """All records of the batch at the start of `batch`; `BadBatch` if it is malformed or expands past the limit."""
    return list(iterate_records(batch, header, limit_bytes=limit_bytes))


def iterate_records(
    batch: Buffer, header: BatchHeader | None = None, *, limit_bytes: int = OWN_BATCH_BYTES_MAX
) -> Iterator[Record]:
    """The records one by one, because a batch of 64 MiB may hold nine million, too many objects to build at once."""
    header = header or read_header(batch)
    if header.size > len(batch):
        raise BadBatch(f"batch of {header.size} bytes is incomplete, only {len(batch)} are present")
    data = memoryview(batch)[HEADER_BYTES : header.size]
    if header.records_count == 0 and not len(data):  # compaction left only the producer's last sequence
        return iter(())
    records = decompress(header.codec, data, limit_bytes)
    if not 0 <= header.records_count <= len(records) // RECORD_BYTES_MIN:
        raise BadBatch(f"{header.records_count} records do not fit into {len(records)} bytes")
    return _parse(records, header)


def _parse(data: Buffer, header: BatchHeader) -> Iterator[Record]:
    base_offset, base_timestamp, last_delta = header.base_offset, header.base_timestamp, header.last_offset_delta
    append_time = header.max_timestamp if header.attributes & LOG_APPEND_TIME else None
    position, limit = 0, len(data)
    try:
        for _ in range(header.records_count):
            length, position = _varint(data, position)
            end = position + length
            if length < 0 or end > limit:
                raise BadBatch(f"record of {length} bytes runs over the end")
            timestamp_delta, position = _varint(data, position + 1, 63)
            offset_delta, position = _varint(data, position)
            if not 0 <= offset_delta <= last_delta:
                raise BadBatch(f"offset delta {offset_delta}, last is {last_delta}")
            key, position = _bytes(data, position, end)
            value, position = _bytes(data, position, end)
            count, position = _varint(data, position)
            headers: tuple[tuple[str, bytes | None], ...] = ()
            if count:
                headers, position = _headers(data, position, end, count)
            if position != end:
                raise BadBatch(f"record ends at {position}, its length says {end}")
            timestamp = base_timestamp + timestamp_delta if append_time is None else append_time
            if not TIMESTAMP_MIN <= timestamp <= TIMESTAMP_MAX:
                timestamp = _wrapped(timestamp)
            yield Record(base_offset + offset_delta, timestamp, key, value, headers)
    except IndexError:
        raise BadBatch("record runs over the end") from None
    if position != limit:
        raise BadBatch(f"{limit - position} bytes after the last record")


def _wrapped(timestamp: int) -> int:
    """The sum of base and delta as Kafka and its clients compute it, in signed 64 bits."""
    return (timestamp - TIMESTAMP_MIN) % 2**64 + TIMESTAMP_MIN


def _headers(data: Buffer, position: int, end: int, count: int) -> tuple[tuple[tuple[str, bytes | None], ...], int]:
    if not 0 <= count <= (end - position) // 2:
        raise BadBatch(f"{count} headers do not fit into {end - position} bytes")
    headers = []
    for _ in range(count):
        name, position = _bytes(data, position, end)
        if name is None:
            raise BadBatch("a header has no name")
        value, position = _bytes(data, position, end)
        try:
            headers.append((name.decode(), value))
        except UnicodeDecodeError:
            raise BadBatch("header name is not UTF-8") from None
    return tuple(headers), position


def _bytes(data: Buffer, position: int, end: int) -> tuple[bytes | None, int]:
    length, position = _varint(data, position)
    if length < 0:
        if length == -1:
            return None, position
        raise BadBatch(f"length {length}")
    stop = position + length
    if stop > end:
        raise BadBatch(f"{length} bytes run over the end of the record")
    return bytes(data[position:stop]), stop


def _varint(data: Buffer, position: int, shift_max: int = 28) -> tuple[int, int]:
    """(value, next position) of a zigzag varint: 5 bytes at most, or 10 for a varlong (`shift_max` 63)."""
    byte = data[position]
    position += 1
    if byte < 0x80:
        return (byte >> 1) ^ -(byte & 1), position
    value, shift = byte & 0x7F, 7
    while True:
        byte = data[position]
        position += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            break
        shift += 7
        if shift > shift_max:
            raise BadBatch("varint is too long")
    if value >> (64 if shift_max == 63 else 32):
        raise BadBatch("varint is too large")
    return (value >> 1) ^ -(value & 1), position


def build_batch(
    records: Sequence[Record],
    *,
    codec: int = 0,
    leader_epoch: int = -1,
    producer_id: int = -1,
    producer_epoch: int = -1,
    base_sequence: int = -1,
    attributes: int = 0,
    base_offset: int | None = None,
    last_offset: int | None = None,
    base_timestamp: int | None = None,
    max_timestamp: int | None = None,
    limit_bytes: int | None = None,
) -> bytearray:
    """A batch with its CRC. Offsets must ascend from `base_offset` to `last_offset`; compaction keeps both even if it
    removes those records. `base_timestamp` is for batches with a delete horizon, which is kept there, and
    `max_timestamp` for batches that compaction emptied. `BatchTooLarge` as soon as the uncompressed records exceed
    `limit_bytes`."""
    if base_offset is None:
        base_offset = records[0].offset if records else 0
    if last_offset is None:
        last_offset = records[-1].offset if records else base_offset
    if base_timestamp is None:
        base_timestamp = records[0].timestamp if records else NO_TIMESTAMP
    if max_timestamp is None:
        max_timestamp = max((record.timestamp for record in records), default=NO_TIMESTAMP)
    body = bytearray()
    for record in records:
        if not base_offset <= record.offset <= last_offset:
            raise ValueError(f"offset {record.offset} is outside {base_offset} to {last_offset}")
        _put_record(body, record, base_offset, base_timestamp)
        if limit_bytes is not None and len(body) > limit_bytes:
            raise BatchTooLarge(f"the records take more than {limit_bytes} bytes, the limit of one batch")
    payload = compress(codec, body) if records else b""
    batch = bytearray(_PREFIX.pack(base_offset, BATCH_LENGTH_MIN + len(payload), leader_epoch, MAGIC, 0))
    batch += _REST.pack(
        attributes & ~COMPRESSION_MASK | (codec if records else 0),
        last_offset - base_offset,
        base_timestamp,
        max_timestamp,
        producer_id,
        producer_epoch,
        base_sequence,
        len(records),
    )
    batch += payload
    struct.pack_into(">I", batch, CRC_START - 4, crc32c(memoryview(batch)[CRC_START:]))
    return batch


def _put_record(out: bytearray, record: Record, base_offset: int, base_timestamp: int) -> None:
    inside = bytearray(1)  # attributes
    _put_varint(inside, _wrapped(record.timestamp - base_timestamp))
    _put_varint(inside, record.offset - base_offset)
    _put_bytes(inside, record.key)
    _put_bytes(inside, record.value)
    _put_varint(inside, len(record.headers))
    for name, value in record.headers:
        _put_bytes(inside, name.encode())
        _put_bytes(inside, value)
    _put_varint(out, len(inside))
    out += inside


def _put_bytes(out: bytearray, value: bytes | None) -> None:
    if value is None:
        out.append(1)  # −1 in zigzag
    else:
        _put_varint(out, len(value))
        out += value


def _put_varint(out: bytearray, value: int) -> None:
    value = value << 1 if value >= 0 else ~(value << 1)
    while value > 0x7F:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    out.append(value)
