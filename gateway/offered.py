"""How many purchases have been offered to this process, whatever became of them: for the picture of the peak."""

from __future__ import annotations

from itertools import count

_counter = count(1)
_last = 0


def one() -> None:
    global _last
    _last = next(_counter)  # one step of the interpreter: no thread is counted twice


def total() -> int:
    return _last
