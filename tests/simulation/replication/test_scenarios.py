"""Directed scenarios: they pass with the real machines. test_seeded_bugs shows that each can fail."""

from __future__ import annotations

import pytest

from tests.simulation.replication.bench import Bench
from tests.simulation.replication.scenarios import SCENARIOS


@pytest.mark.parametrize("name", SCENARIOS)
def test_a_replicated_log_survives(name: str) -> None:
    SCENARIOS[name](Bench())
