"""Codec: a compact set of users that many processes load: sorted 64-bit hashes, 800 kB for a hundred thousand users.

Two users may share a hash. Then both count as members, which is safe: a pinned user only waits in the longer queue.
"""

from __future__ import annotations

import hashlib
import sys
from array import array
from bisect import bisect_left
from collections.abc import Iterable

MARK_BYTES = 8


def user_mark(key: bytes) -> int:
    return int.from_bytes(hashlib.blake2b(key, digest_size=MARK_BYTES).digest(), "little")


class PinnedUsers:
    """Immutable."""

    __slots__ = ("_marks",)

    def __init__(self, marks: Iterable[int]) -> None:
        self._marks = array("Q", sorted(set(marks)))

    @classmethod
    def decode(cls, content: bytes) -> PinnedUsers:
        marks = array("Q")
        marks.frombytes(content)
        if sys.byteorder == "big":
            marks.byteswap()
        decoded = cls(())
        decoded._marks = marks
        return decoded

    def encode(self) -> bytes:
        marks = array("Q", self._marks)
        if sys.byteorder == "big":
            marks.byteswap()
        return marks.tobytes()

    def __contains__(self, key: bytes) -> bool:
        wanted = user_mark(key)
        at = bisect_left(self._marks, wanted)
        return at < len(self._marks) and self._marks[at] == wanted

    def __len__(self) -> int:
        return len(self._marks)
