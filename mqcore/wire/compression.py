"""Codec: the compression codecs of record batches, by Kafka's numbers, with a limit on the decompressed size.

The broker stores batches as they arrive. Only code that reads records decompresses them: compaction, lookups by time,
internal topics and tools.

A megabyte can expand to a gigabyte, so nothing is expanded past `limit_bytes`: gzip can stop at a size, raw snappy
announces its size, and LZ4 and Zstandard are expanded into a buffer of that size. Time is bounded too: gzip members and
snappy blocks are counted, and gzip is read in pieces, because zlib copies all unread input whenever a member ends.

We write what Java clients can read: snappy in the framing of the xerial library, LZ4 frames with independent blocks.
"""

from __future__ import annotations

import struct
import zlib
from collections.abc import Callable
from typing import Any, Final

import cramjam

from mqcore.wire.batches import BadBatch, Buffer

NONE: Final = 0
GZIP: Final = 1
SNAPPY: Final = 2
LZ4: Final = 3
ZSTD: Final = 4

NAMES: Final = {NONE: "none", GZIP: "gzip", SNAPPY: "snappy", LZ4: "lz4", ZSTD: "zstd"}

_XERIAL_MAGIC: Final = b"\x82SNAPPY\x00"
_XERIAL_HEADER: Final = _XERIAL_MAGIC + struct.pack(">ii", 1, 1)  # version, lowest version that can read it
_XERIAL_BLOCK: Final = 32 * 1024
_BLOCK_LENGTH = struct.Struct(">i")

# Magic, FLG: version 1 with independent blocks, BD: blocks of 64 KiB, checksum of FLG and BD.
_LZ4_HEADER: Final = b"\x04\x22\x4d\x18\x60\x40\x82"
_LZ4_BLOCK: Final = 64 * 1024
_LZ4_STORED: Final = 0x80000000  # set in the length of a block that did not shrink
_LZ4_LENGTH = struct.Struct("<I")

_FIRST_GUESS: Final = 64 * 1024

GZIP_MEMBERS_MAX: Final = 1000
SNAPPY_BLOCKS_MAX: Final = 10_000
_GZIP_PIECE: Final = 16 * 1024
_GZIP_EXPANDED: Final = 256 * 1024


def compress(codec: int, data: Buffer) -> bytes:
    if codec not in _COMPRESS:
        raise ValueError(f"unknown compression codec {codec}")
    return _COMPRESS[codec](data)


def decompress(codec: int, data: Buffer, limit_bytes: int) -> Buffer:
    """At most `limit_bytes`; `BadBatch` if there is more, or if the data is damaged."""
    if codec not in _DECOMPRESS:
        raise BadBatch(f"unknown compression codec {codec}")
    return _DECOMPRESS[codec](data, limit_bytes)


def _too_large(codec: int, limit_bytes: int) -> BadBatch:
    return BadBatch(f"{NAMES[codec]} data expands to more than {limit_bytes} bytes")


def _store(data: Buffer, limit_bytes: int) -> bytes:
    if len(data) > limit_bytes:
        raise BadBatch(f"{len(data)} bytes, more than {limit_bytes}")
    return bytes(data)


def _compress_gzip(data: Buffer) -> bytes:
    return zlib.compress(data, wbits=31)


def _decompress_gzip(data: Buffer, limit_bytes: int) -> bytearray:
    """All members of the stream, joined."""
    out, view, position, members = bytearray(), memoryview(data), 0, 0
    while position < len(view):
        members += 1
        if members > GZIP_MEMBERS_MAX:
            raise BadBatch(f"gzip: more than {GZIP_MEMBERS_MAX} members in one batch")
        position = _expand_member(view, position, out, limit_bytes)
    return out


def _expand_member(view: memoryview, position: int, out: bytearray, limit_bytes: int) -> int:
    """Append the member that begins at `position` to `out`. Returns where the next member begins."""
    member = zlib.decompressobj(wbits=31)
    while not member.eof:
        if position >= len(view):
            raise BadBatch("gzip: the data ends within the stream")
        piece: Buffer = view[position : position + _GZIP_PIECE]
        position += len(piece)
        while len(piece) and not member.eof:
            try:
                room = limit_bytes - len(out) + 1  # one byte more than allowed shows that there is more
                out += member.decompress(piece, min(room, _GZIP_EXPANDED))
            except zlib.error as error:
                raise BadBatch(f"gzip: {error}") from error
            if len(out) > limit_bytes:
                raise _too_large(GZIP, limit_bytes)
            piece = member.unconsumed_tail
    return position - len(member.unused_data)


def _compress_snappy(data: Buffer) -> bytes:
    out = bytearray(_XERIAL_HEADER)
    view = memoryview(data)
    for start in range(0, max(len(view), 1), _XERIAL_BLOCK):  # few decoders accept a stream without a block
        block = bytes(cramjam.snappy.compress_raw(view[start : start + _XERIAL_BLOCK]))
        out += _BLOCK_LENGTH.pack(len(block))
        out += block
    return bytes(out)


def _decompress_snappy(data: Buffer, limit_bytes: int) -> bytearray:
    """Either xerial's framing (Java, kafka-python) or one raw block (librdkafka)."""
    view = memoryview(data)
    if bytes(view[:8]) != _XERIAL_MAGIC:
        return _decompress_snappy_block(view, limit_bytes)
    out, position, blocks = bytearray(), len(_XERIAL_HEADER), 0
    while position < len(view):
        blocks += 1
        if blocks > SNAPPY_BLOCKS_MAX:
            raise BadBatch(f"snappy: more than {SNAPPY_BLOCKS_MAX} blocks in one batch")
        try:
            length = _BLOCK_LENGTH.unpack_from(view, position)[0]
        except struct.error:
            raise BadBatch("snappy: the data ends within a block length") from None
        start, position = position + 4, position + 4 + length
        if length <= 0 or position > len(view):
            raise BadBatch(f"snappy: block of {length} bytes")
        out += _decompress_snappy_block(view[start:position], limit_bytes - len(out))
    return out


def _decompress_snappy_block(block: memoryview, limit_bytes: int) -> bytearray:
    try:
        size = cramjam.snappy.decompress_raw_len(block)
        if size > limit_bytes:
            raise _too_large(SNAPPY, limit_bytes)
        out = bytearray(size)
        cramjam.snappy.decompress_raw_into(block, out)
        return out
    except cramjam.DecompressionError as error:
        raise BadBatch(str(error)) from error


def _compress_lz4(data: Buffer) -> bytes:
    """We frame the library's blocks ourselves, because its frames have dependent blocks, which Java clients refuse."""
    out = bytearray(_LZ4_HEADER)
    view = memoryview(data)
    for start in range(0, len(view), _LZ4_BLOCK):
        chunk = view[start : start + _LZ4_BLOCK]
        block = bytes(cramjam.lz4.compress_block(chunk, store_size=False))
        if len(block) < len(chunk):
            out += _LZ4_LENGTH.pack(len(block))
            out += block
        else:
            out += _LZ4_LENGTH.pack(len(chunk) | _LZ4_STORED)
            out += chunk
    out += _LZ4_LENGTH.pack(0)
    return bytes(out)


def _compress_zstd(data: Buffer) -> bytes:
    return bytes(cramjam.zstd.compress(data))


def _expander(codec: int, expand_into: Callable[[Any, Any], int]) -> Callable[[Buffer, int], bytearray]:
    """For libraries that only fill a buffer: start with a small one and retry with larger ones, up to the limit."""

    def expand(data: Buffer, limit_bytes: int) -> bytearray:
        room = min(max(4 * len(data), _FIRST_GUESS), limit_bytes)
        while True:
            buffer = bytearray(room)
            try:
                filled = expand_into(data, buffer)
            except cramjam.DecompressionError as error:
                if room == limit_bytes:
                    raise BadBatch(f"{NAMES[codec]}: {error}, with room for {limit_bytes} bytes") from error
                del buffer  # frees the buffer before a larger one is allocated
                room = min(8 * room, limit_bytes)
            else:
                del buffer[filled:]
                return buffer

    return expand


_COMPRESS: Final[dict[int, Callable[[Buffer], bytes]]] = {
    NONE: bytes,
    GZIP: _compress_gzip,
    SNAPPY: _compress_snappy,
    LZ4: _compress_lz4,
    ZSTD: _compress_zstd,
}
_DECOMPRESS: Final[dict[int, Callable[[Buffer, int], Buffer]]] = {
    NONE: _store,
    GZIP: _decompress_gzip,
    SNAPPY: _decompress_snappy,
    LZ4: _expander(LZ4, cramjam.lz4.decompress_into),
    ZSTD: _expander(ZSTD, cramjam.zstd.decompress_into),
}
