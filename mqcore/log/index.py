"""Codec: the two sparse indexes of a segment, in Kafka's file formats.

    .index      8 bytes per entry:  last offset of a batch − base offset (int32), position of that batch (int32)
    .timeindex  12 bytes per entry: largest timestamp so far (int64), last offset of its batch − base offset (int32)

Own rule: indexes are hints. They stay in memory while their segment is active, are written when it is sealed, and are
checked when they are read. If the check fails, they are rebuilt from the batches.
"""

from __future__ import annotations

import sys
from array import array
from bisect import bisect_left, bisect_right
from itertools import islice
from operator import lt
from typing import Final

ENTRY_BYTES: Final = 8
TIME_ENTRY_BYTES: Final = 12
RELATIVE_OFFSET_MAX: Final = 2**31 - 1  # offsets in an index are relative to the segment's base, in 32 bits
_HIGH, _LOW = (1, 0) if sys.byteorder == "little" else (0, 1)  # the halves of an int64 in memory


class OffsetIndex:
    """Last offsets (relative) and positions of some batches, both rising strictly."""

    __slots__ = ("_offsets", "_positions")

    def __init__(self) -> None:
        self._offsets = array("i")
        self._positions = array("i")

    def __len__(self) -> int:
        return len(self._offsets)

    @property
    def size_bytes(self) -> int:
        return len(self._offsets) * ENTRY_BYTES

    def add(self, relative_offset: int, position: int) -> None:
        self._offsets.append(relative_offset)
        self._positions.append(position)

    def floor(self, relative_offset: int) -> tuple[int, int]:
        """(relative last offset, position) of the last indexed batch that ends at or below the offset, or (-1, 0)."""
        above = bisect_right(self._offsets, relative_offset)
        return (self._offsets[above - 1], self._positions[above - 1]) if above else (-1, 0)

    def entries(self) -> list[tuple[int, int]]:
        return list(zip(self._offsets, self._positions, strict=True))

    def encode(self) -> bytes:
        flat = array("i", bytes(self.size_bytes))
        flat[0::2], flat[1::2] = self._offsets, self._positions
        return _big_endian(flat).tobytes()

    @classmethod
    def decode(cls, content: bytes, segment_bytes: int) -> OffsetIndex | None:
        """None unless the entries rise strictly and lie within a segment of that size."""
        if len(content) % ENTRY_BYTES:
            return None
        flat = array("i")
        flat.frombytes(content)
        _big_endian(flat)
        index = cls()
        index._offsets, index._positions = flat[0::2], flat[1::2]
        if not (_rises(index._offsets) and _rises(index._positions)):
            return None
        if flat and not (flat[0] >= 0 and flat[1] >= 0 and flat[-1] < segment_bytes):
            return None
        return index


class TimeIndex:
    """Largest timestamps so far, and the relative last offsets of the batches that reached them; both rise strictly."""

    __slots__ = ("_offsets", "_timestamps")

    def __init__(self) -> None:
        self._timestamps = array("q")
        self._offsets = array("i")

    def __len__(self) -> int:
        return len(self._offsets)

    @property
    def size_bytes(self) -> int:
        return len(self._offsets) * TIME_ENTRY_BYTES

    @property
    def last(self) -> tuple[int, int] | None:
        return (self._timestamps[-1], self._offsets[-1]) if self._offsets else None

    def add(self, timestamp: int, relative_offset: int) -> None:
        """Add an entry, unless one of its values does not rise. Kafka skips such entries too; searches still work."""
        if timestamp >= 0 and (
            not self._offsets or (timestamp > self._timestamps[-1] and relative_offset > self._offsets[-1])
        ):
            self._timestamps.append(timestamp)
            self._offsets.append(relative_offset)

    def floor(self, timestamp: int) -> int:
        """A relative offset at or below that of the first record that is not older than `timestamp`."""
        above = bisect_right(self._timestamps, timestamp)
        return self._offsets[above - 1] if above else 0

    def entries(self) -> list[tuple[int, int]]:
        return list(zip(self._timestamps, self._offsets, strict=True))

    def reached_below(self, relative_offset: int) -> tuple[int, int] | None:
        """The last entry of a batch that ends below the offset."""
        at = bisect_left(self._offsets, relative_offset)
        return (self._timestamps[at - 1], self._offsets[at - 1]) if at else None

    def encode(self) -> bytes:
        """Encode column by column, because an index has a quarter of a million entries per GiB."""
        halves = array("i", self._timestamps.tobytes())
        flat = array("i", bytes(self.size_bytes))
        flat[0::3], flat[1::3], flat[2::3] = halves[_HIGH::2], halves[_LOW::2], self._offsets
        return _big_endian(flat).tobytes()

    @classmethod
    def decode(cls, content: bytes) -> TimeIndex | None:
        """None unless the entries rise strictly."""
        if len(content) % TIME_ENTRY_BYTES:
            return None
        flat = array("i")
        flat.frombytes(content)
        _big_endian(flat)
        halves = array("i", bytes(len(content) // TIME_ENTRY_BYTES * 8))
        halves[_HIGH::2], halves[_LOW::2] = flat[0::3], flat[1::3]
        index = cls()
        index._timestamps.frombytes(halves.tobytes())
        index._offsets = flat[2::3]
        if not (_rises(index._timestamps) and _rises(index._offsets)) or (index._offsets and index._offsets[0] < 0):
            return None
        return index


def _big_endian(numbers: array[int]) -> array[int]:
    if sys.byteorder == "little":
        numbers.byteswap()
    return numbers


def _rises(numbers: array[int]) -> bool:
    return all(map(lt, numbers, islice(numbers, 1, None)))
