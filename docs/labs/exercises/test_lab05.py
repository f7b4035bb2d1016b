"""Lab 5: .venv/bin/pytest docs/labs/exercises/test_lab05.py"""

from __future__ import annotations

import pytest

from docs.labs.exercises import lab05_delivery as lab


def test_1_losses_and_repetitions_are_counted_one_by_one() -> None:
    assert lab.lost_and_repeated(range(5), [0, 1, 1, 1, 3]) == (2, 2)
    assert lab.lost_and_repeated(range(5), [4, 3, 2, 1, 0]) == (0, 0)


@pytest.mark.parametrize(
    ("guarantee", "effects_after_a_crash"), [("at-most-once", {0, 1}), ("at-least-once", {1, 2}), ("exactly-once", {1})]
)
def test_2_a_crash_leaves_what_the_guarantee_allows(guarantee: str, effects_after_a_crash: set[int]) -> None:
    """Crash after each number of committed transactions, restart, and count the effects on the only batch."""
    commits = lab.transactions(guarantee)
    assert set().union(*commits) == {"effects", "offset"}
    found = set()
    for survived in range(len(commits) + 1):
        effects, offset = 0, 0
        for life in (commits[:survived], commits):
            if not offset:
                for commit in life:
                    effects += "effects" in commit
                    offset += "offset" in commit
        found.add(effects)
    assert found == effects_after_a_crash


def test_3_only_assignments_may_be_repeated() -> None:
    assert lab.is_repeatable(["set price 5", "set state paid"])
    assert not lab.is_repeatable(["set price 5", "add stock -1"])
    assert lab.is_repeatable([])
