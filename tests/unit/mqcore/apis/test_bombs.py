"""How much memory decoding a frame takes: little for a false count, and a limited amount for many small elements."""

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
    """The peak of allocated bytes while the body is decoded or refused."""
    frame = memoryview(bytearray(body))
    decode = TABLE[key].decode
    kept: Any = None
    try:
        decode(version, frame[:50], 0)  # compiles the reader of this version
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
def test_the_number_of_array_elements_in_a_request_is_limited(count: int) -> None:
    """A topic without a name takes two bytes on the wire and many times that in memory, so their number is limited."""
    body = struct.pack(">i", count) + bytes(2 * count)
    assert peak(3, 1, body) < 16 * MIB
