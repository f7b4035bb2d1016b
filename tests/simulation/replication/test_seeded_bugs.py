"""Every seeded bug is found: by the scenario that its entry names, or by random histories."""

from __future__ import annotations

import pytest

from tests.simulation.replication.bench import Bench
from tests.simulation.replication.history_run import run_history
from tests.simulation.replication.scenarios import SCENARIOS
from tests.simulation.replication.seeded_bugs import SEEDED_BUGS, SeededBug

HISTORIES_MAX = 60


def first_failing_seed(bug: SeededBug) -> int | None:
    for seed in range(HISTORIES_MAX):
        try:
            run_history(seed, bug.setup)
        except AssertionError:  # `Violated`, or the own check of a machine
            return seed
    return None


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("bug", SEEDED_BUGS, ids=lambda bug: bug.name)
def test_a_seeded_bug_is_found(bug: SeededBug) -> None:
    if bug.scenario is None:
        assert first_failing_seed(bug) is not None
        return
    with pytest.raises(AssertionError):
        SCENARIOS[bug.scenario](Bench(bug.setup))


def test_each_bug_is_named_once() -> None:
    assert len({bug.name for bug in SEEDED_BUGS}) == len(SEEDED_BUGS)
    assert {bug.scenario for bug in SEEDED_BUGS} - {None} <= SCENARIOS.keys()
