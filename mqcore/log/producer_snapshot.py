"""Codec: Kafka's producer snapshot, version 1.

    version (int16)  CRC-32C of everything after it (uint32)  number of rows (int32)  rows of 58 bytes

Kafka writes one row per producer, for its last batch. This broker writes one per remembered batch, oldest first;
Kafka's tools keep the last row of each producer, so they read both alike.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable
from typing import Final, NamedTuple

from mqcore.wire.checksum import crc32c

_HEAD = struct.Struct(">hIi")
_ROW = struct.Struct(">qhiqiqiq")
_VERSION: Final = 1
_CHECKED_FROM: Final = 6


class BadSnapshot(ValueError):
    """The content is not a producer snapshot, or it is damaged."""


class SnapshotRow(NamedTuple):
    """One batch of a producer."""

    producer_id: int
    producer_epoch: int
    last_sequence: int
    last_offset: int
    offset_delta: int  # last offset − base offset
    timestamp: int
    coordinator_epoch: int = -1
    transaction_first_offset: int = -1


def encode_snapshot(rows: Iterable[SnapshotRow]) -> bytes:
    packed = [_ROW.pack(*row) for row in rows]
    body = len(packed).to_bytes(4, "big") + b"".join(packed)
    return _VERSION.to_bytes(2, "big") + crc32c(body).to_bytes(4, "big") + body


def decode_snapshot(content: bytes) -> list[SnapshotRow]:
    """Raises `BadSnapshot` if the content is damaged in any way."""
    if len(content) < _HEAD.size:
        raise BadSnapshot("too short for a producer snapshot")
    version, crc, count = _HEAD.unpack_from(content)
    if version != _VERSION:
        raise BadSnapshot(f"version {version}, expected {_VERSION}")
    if crc32c(memoryview(content)[_CHECKED_FROM:]) != crc:
        raise BadSnapshot(f"version {version}, wrong CRC")
    rows = memoryview(content)[_HEAD.size :]
    if len(rows) != count * _ROW.size:
        raise BadSnapshot(f"{count} rows in {len(rows)} bytes")
    return [SnapshotRow._make(row) for row in _ROW.iter_unpack(rows)]
