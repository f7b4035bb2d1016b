"""Every seeded bug of coordinators is found by the test that its entry names."""

from __future__ import annotations

import pytest

from tests.simulation.groups.seeded_bugs import SEEDED_BUGS, SeededBug, put_in


@pytest.mark.parametrize("bug", SEEDED_BUGS, ids=lambda bug: bug.name)
def test_a_seeded_bug_is_found(bug: SeededBug) -> None:
    bug.test(*bug.arguments)
    with put_in(bug), pytest.raises(AssertionError):
        bug.test(*bug.arguments)
