"""Lab 2 · a row lock at 2 ms a commit: three small tasks."""

from __future__ import annotations

from collections.abc import Sequence


def decisions_per_second(commit_ms: float, batch: int) -> float:
    """Task 1: the most decisions a second about one locked row, if a transaction decides `batch` requests and does
    nothing else than wait for its commit while it holds the lock."""
    return batch * 1000 / commit_ms


def form_batches(arrived: Sequence[str], most: int) -> list[list[str]]:
    """Task 2: batches of at most `most` requests, in the order of arrival. No empty batch."""
    return [list(arrived[start : start + most]) for start in range(0, len(arrived), most)]


def grant_in_order(quantities: Sequence[int], available: int) -> list[bool]:
    """Task 3: who gets units if one transaction decides the whole batch? A request gets its quantity or nothing. A
    request that is too large does not stop a later, smaller one."""
    granted = []
    for quantity in quantities:
        granted.append(quantity <= available)
        available -= quantity if granted[-1] else 0
    return granted
