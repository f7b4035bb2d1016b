"""Store: reads a segment batch by batch and trusts nothing.

Own rule: a length is compared with the bytes that exist before it is used. Invalid bytes are a torn write only if no
valid batch follows them. A valid batch may start at any position, so every position is tried.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, NamedTuple

from mqcore.log.segment import Segment
from mqcore.wire.batches import (
    CRC_START,
    HEADER_BYTES,
    LENGTH_OVERHEAD,
    BadBatch,
    BatchHeader,
    check_crc,
    read_header,
)
from mqcore.wire.checksum import crc32c

_CHUNK: Final = 1 << 20
_MAGIC_AT: Final = 16
_MAGIC: Final = b"\x02"


class ScanResult(NamedTuple):
    """How far a segment is valid. `reason` says why it is invalid from there on; None means valid to its end."""

    end_position: int
    next_offset: int
    last_epoch: int
    batches: int
    reason: str | None
    is_misplaced: bool = False  # the next batch is complete and has a valid CRC but is in the wrong place


def scan_segment(
    segment: Segment,
    next_offset: int,
    last_epoch: int,
    *,
    gaps_allowed: bool,
    each: Callable[[int, BatchHeader], None],
) -> ScanResult:
    """Verify all batches in order and call `each(position, header)` for the valid ones."""
    position, size, batches = 0, segment.size, 0
    data, start = b"", 0
    view = memoryview(data)
    reason: str | None = None
    while position < size:
        at = position - start
        if at + HEADER_BYTES > len(data):
            data, start, at = segment.file.read(position, min(_CHUNK, size - position)), position, 0
            view = memoryview(data)
        try:
            header = read_header(data, at)
        except BadBatch as error:
            reason = str(error)
            break
        length = header.length + LENGTH_OVERHEAD
        if length > size - position:
            reason = f"batch of {length} bytes is cut off"
            break
        if at + length > len(data):
            data, start, at = segment.file.read(position, max(_CHUNK, length)), position, 0
            view = memoryview(data)
        if crc32c(view[at + CRC_START : at + length]) != header.crc:
            reason = "wrong CRC"
            break
        if header.base_offset != next_offset or header.leader_epoch < last_epoch or header.last_offset_delta < 0:
            reason = _out_of_place(header, next_offset, last_epoch, gaps_allowed)
            if reason is not None:
                return ScanResult(position, next_offset, last_epoch, batches, reason, is_misplaced=True)
        each(position, header)
        position += length
        batches += 1
        next_offset, last_epoch = header.base_offset + header.last_offset_delta + 1, header.leader_epoch
    return ScanResult(position, next_offset, last_epoch, batches, reason)


def _out_of_place(header: BatchHeader, next_offset: int, last_epoch: int, gaps_allowed: bool) -> str | None:
    """Check what the CRC does not cover: offset and leader epoch must continue those of the batch before."""
    if header.last_offset_delta < 0:
        return f"last offset delta {header.last_offset_delta}"
    if header.base_offset < next_offset or (header.base_offset > next_offset and not gaps_allowed):
        return f"base offset {header.base_offset}, expected {next_offset}"
    if header.leader_epoch < last_epoch:
        return f"leader epoch {header.leader_epoch} after {last_epoch}"
    return None


def find_valid_batch(segment: Segment, position: int, offset_min: int) -> int | None:
    """The first position, from `position` on, of a complete and valid batch with an offset of at least `offset_min`."""
    size = segment.size
    while position + HEADER_BYTES <= size:
        data = segment.file.read(position, min(_CHUNK, size - position))
        at = data.find(_MAGIC, _MAGIC_AT)
        while at >= 0 and at - _MAGIC_AT + HEADER_BYTES <= len(data):
            candidate = at - _MAGIC_AT
            if _is_valid_batch(segment, data, candidate, position + candidate, offset_min):
                return position + candidate
            at = data.find(_MAGIC, at + 1)
        if position + len(data) >= size:
            return None
        position += len(data) - HEADER_BYTES + 1
    return None


def _is_valid_batch(segment: Segment, data: bytes, at: int, position: int, offset_min: int) -> bool:
    try:
        header = read_header(data, at)
        if not offset_min <= header.base_offset < offset_min + 2**31 or header.size > segment.size - position:
            return False
        check_crc(segment.file.read(position, header.size), header)
    except BadBatch:
        return False
    return True
