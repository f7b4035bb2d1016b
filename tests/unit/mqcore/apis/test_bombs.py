"""What a frame makes the decoders allocate: for a lie about a count little, for a crowd of small things not much."""

from __future__ import annotations

import struct
import tracemalloc
from typing import Any

import pytest

from mqcore.apis.table import TABLE
from mqcore.wire.frames import BadFrame

SIZE = 128 * 1024
MIB = 1 << 20


def peak(key: int, version: int, body: bytes | bytearray) -> int:
    """Bytes allocated, at the highest, while the body is decoded (or found to be no request)."""
    frame = memoryview(bytearray(body))
    decode = TABLE[key].decode
    kept: Any = None
    try:
        decode(version, frame[:50], 0)  # the reader of this version is made once
    except BadFrame:
        pass
    tracemalloc.start()
    try:
        kept = decode(version, frame, 0)
    except BadFrame:
        pass
    finally:
        highest = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
    del kept
    return highest


@pytest.mark.parametrize("fill", [b"\x01", b"\x7f", b"\xff", b"\x00\x00\x00\x01"])
def test_no_count_makes_a_decoder_allocate_more_than_four_times_the_frame(fill: bytes) -> None:
    body = fill * (SIZE // len(fill))
    for key, entry in TABLE.items():
        for version in range(entry.api.first_version, entry.api.last_version + 1):
            assert peak(key, version, body) <= 4 * SIZE, (entry.api.name, version)


@pytest.mark.parametrize("count", [50_000, 1_000_000])
def test_a_crowd_of_the_smallest_things_is_bounded_in_all(count: int) -> None:
    """Topics without a name: two bytes each on the wire, and many times that in memory; so there may not be many."""
    body = struct.pack(">i", count) + bytes(2 * count)
    assert peak(3, 1, body) < 16 * MIB
