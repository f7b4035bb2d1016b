"""Helpers for tests of the log: batches like those of producers, and an observer whose state can be compared."""

from __future__ import annotations

import json
import struct
from collections.abc import Sequence
from zlib import crc32

from crc32c import crc32c

from mqcore.disk.port import Disk
from mqcore.log.log import Log
from mqcore.log.topic_config import LogConfig
from mqcore.wire.batches import CRC_START, HEADER_BYTES, LENGTH_OVERHEAD, BatchHeader, read_header, read_headers, stamp
from mqcore.wire.records import Record, _put_record, build_batch

DIRECTORY = "orders-0"


class LastSequences:
    """A small observer: the last offset and the last sequence number of each producer."""

    def __init__(self) -> None:
        self.last: dict[int, tuple[int, int]] = {}

    def observe(self, header: BatchHeader) -> None:
        if header.producer_id >= 0:
            self.last[header.producer_id] = (header.last_offset, header.base_sequence + header.last_offset_delta)

    def snapshot(self) -> bytes:
        content = json.dumps(sorted(self.last.items())).encode()
        return crc32(content).to_bytes(4, "big") + content

    def restore(self, snapshot: bytes) -> bool:
        if len(snapshot) < 6 or crc32(snapshot[4:]) != int.from_bytes(snapshot[:4], "big"):
            return False
        self.last = {producer: (offset, sequence) for producer, (offset, sequence) in json.loads(snapshot[4:])}
        return True

    def clear(self) -> None:
        self.last = {}


def batch(
    values: Sequence[bytes | None] = (b"x",),
    *,
    keys: Sequence[bytes | None] | None = None,
    timestamp: int = 1000,
    producer: int = -1,
    sequence: int = -1,
    codec: int = 0,
) -> bytearray:
    """A batch without offsets yet."""
    keys = keys or [None] * len(values)
    records = [
        Record(index, timestamp + index, key, value)
        for index, (key, value) in enumerate(zip(keys, values, strict=True))
    ]
    epoch = 0 if producer >= 0 else -1
    return build_batch(records, codec=codec, producer_id=producer, producer_epoch=epoch, base_sequence=sequence)


def place(data: bytearray, offset: int, epoch: int = 0) -> BatchHeader:
    """Write offset and epoch into the batch, as the leader does."""
    stamp(data, offset, epoch)
    return read_header(data)


def append(log: Log, data: bytearray | None = None, *, epoch: int = 0, now_ms: int = 1000) -> bytes:
    """Append one batch and return its bytes as they are stored."""
    data = batch() if data is None else data
    header = place(data, log.end_offset, epoch)
    log.append(data, [header], now_ms)
    return bytes(data)


def open_log(
    disk: Disk,
    config: LogConfig | None = None,
    *,
    clean: bool = False,
    recovery_point: int = 0,
    observer: LastSequences | None = None,
    start_offset: int = 0,
    now_ms: int = 1000,
) -> Log:
    return Log.open(
        disk,
        DIRECTORY,
        config or LogConfig(),
        now_ms=now_ms,
        clean=clean,
        recovery_point=recovery_point,
        observer=LastSequences() if observer is None else observer,
        start_offset=start_offset,
    )


def stored(log: Log, limit: int | None = None) -> list[bytes]:
    """All batches that a reader can read."""
    limit = log.end_offset if limit is None else limit
    found, offset = [], log.start_offset
    while (piece := log.read(offset, 1 << 20, limit=limit)) is not None:
        data = piece.read()
        for position, header in read_headers(data):
            found.append(data[position : position + header.size])
            offset = header.next_offset
    return found


def offsets(batches: Sequence[bytes]) -> list[tuple[int, int]]:
    """(base offset, next offset) of each batch."""
    headers = [read_header(data) for data in batches]
    return [(header.base_offset, header.next_offset) for header in headers]


def with_crc(data: bytearray) -> bytearray:
    """The same bytes with a valid CRC, as a client with a defect might send them."""
    data[CRC_START - 4 : CRC_START] = crc32c(data[CRC_START:]).to_bytes(4, "big")
    return data


def poisoned(found: Sequence[Record], base: int, largest: int = 1000) -> bytearray:
    """A batch whose records have timestamps relative to `base`, while its header claims `largest`."""
    data = build_batch([record._replace(timestamp=0) for record in found], base_timestamp=0)
    head, body = data[:HEADER_BYTES], bytearray()
    for record in found:
        _put_record(body, record, 0, base)
    struct.pack_into(">i", head, 8, HEADER_BYTES - LENGTH_OVERHEAD + len(body))
    struct.pack_into(">qq", head, 27, base, largest)
    return with_crc(head + body)
