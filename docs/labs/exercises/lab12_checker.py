"""Lab 12 · who checks the checker: three small tasks."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from typing import Any


def differences(holds: Mapping[str, int], orders: Mapping[str, int]) -> dict[str, tuple[int | None, int | None]]:
    """Task 1: the full outer join of two sources, request → units: every request that they do not agree on, with what
    each of them says (None: it does not know the request). Two errors that cancel out must show as two."""
    raise NotImplementedError("task 12.1")


def unnoticed(check: Callable[[Any], bool], good: Any, corruptions: Mapping[str, Callable[[Any], Any]]) -> list[str]:
    """Task 2: the names of the corruptions that the check does not notice, sorted. A corruption returns a changed copy
    of the evidence. A check that rejects the good evidence proves nothing: raise ValueError."""
    raise NotImplementedError("task 12.2")


def verdict(violations: int, missing_sources: Collection[str], checked: int) -> str:
    """Task 3: FAIL if something is wrong, UNKNOWN if a source is missing or nothing was checked, PASS only if all was
    there and all was right. A known violation counts even if other sources are missing."""
    raise NotImplementedError("task 12.3")
