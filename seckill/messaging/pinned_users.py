"""Codec: a set of users for many processes to load: sorted marks of 64 bits, so that a hundred thousand are 800 kB.

Two users may have one mark: then both are taken to be in the set, which is the safe side for who uses it.
"""

from __future__ import annotations

import hashlib
import sys
from array import array
from bisect import bisect_left
from collections.abc import Iterable

BYTES = 8


def mark(key: bytes) -> int:
    return int.from_bytes(hashlib.blake2b(key, digest_size=BYTES).digest(), "little")


class Stayers:
    """Does not change."""

    __slots__ = ("_marks",)

    def __init__(self, marks: Iterable[int]) -> None:
        self._marks = array("Q", sorted(set(marks)))

    @classmethod
    def decode(cls, content: bytes) -> Stayers:
        marks = array("Q")
        marks.frombytes(content)
        if sys.byteorder == "big":
            marks.byteswap()
        made = cls(())
        made._marks = marks
        return made

    def encode(self) -> bytes:
        marks = array("Q", self._marks)
        if sys.byteorder == "big":
            marks.byteswap()
        return marks.tobytes()

    def __contains__(self, key: bytes) -> bool:
        wanted = mark(key)
        at = bisect_left(self._marks, wanted)
        return at < len(self._marks) and self._marks[at] == wanted

    def __len__(self) -> int:
        return len(self._marks)
