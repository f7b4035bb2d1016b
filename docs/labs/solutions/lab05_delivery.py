"""Lab 5 · delivery under kill -9: three small tasks."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence

AT_MOST_ONCE, AT_LEAST_ONCE, EXACTLY_ONCE = "at-most-once", "at-least-once", "exactly-once"


def lost_and_repeated(sent: Iterable[int], effects: Iterable[int]) -> tuple[int, int]:
    """Task 1: how many sent numbers have no effect, and how many effects are repeated."""
    counts = Counter(effects)
    return sum(not counts[number] for number in sent), sum(count - 1 for count in counts.values())


def transactions(guarantee: str) -> list[set[str]]:
    """Task 2: which transactions a consumer commits for a batch, in which order. The steps are "effects" and "offset";
    a crash between two transactions runs the first one only, and a restart begins at the stored offset."""
    return {
        AT_MOST_ONCE: [{"offset"}, {"effects"}],
        AT_LEAST_ONCE: [{"effects"}, {"offset"}],
        EXACTLY_ONCE: [{"effects", "offset"}],
    }[guarantee]


def is_repeatable(operations: Sequence[str]) -> bool:
    """Task 3: whether at-least-once delivery is enough, because running all operations again, in order, changes
    nothing. Operations look like `set price 5` and `add stock -1`."""
    return all(operation.startswith("set ") for operation in operations)
