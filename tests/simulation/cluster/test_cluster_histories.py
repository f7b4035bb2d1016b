"""Whole brokers in virtual time: whatever happens to one of three, nothing that was acknowledged is lost.

`CLUSTER_HISTORIES=1000 pytest …` runs more; `python -m tests.simulation cluster SEED` repeats one.
"""

from __future__ import annotations

import os

import pytest

from tests.simulation.cluster.history import run_one

HISTORIES = int(os.environ.get("CLUSTER_HISTORIES", "30"))


@pytest.mark.parametrize("seed", range(HISTORIES))
def test_nothing_acknowledged_is_lost_while_one_broker_of_three_is_in_trouble(seed: int) -> None:
    run_one(seed)


def test_the_same_seed_gives_the_same_history() -> None:
    assert run_one(3).trace.hexdigest() == run_one(3).trace.hexdigest()
