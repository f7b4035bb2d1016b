"""Seeded histories of three voters whose processes, disks and network fail, with invariants after every event.

`RAFT_HISTORIES` says how many. `python -m tests.simulation raft` runs more, and replays one by its seed.
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.simulation.raft.history import HistoryFailed, run_history
from tests.simulation.raft.seeded_bugs import BUGS, SeededBug, planted
from tests.simulation.raft.troubles import KINDS, make_troubles

HISTORIES = int(os.environ.get("RAFT_HISTORIES", "60"))
GROUP = 10
ROOT = Path(__file__).parents[3]


@pytest.mark.parametrize("first", range(0, HISTORIES, GROUP))
def test_no_history_breaks_an_invariant_and_every_one_settles(first: int) -> None:
    for seed in range(first, min(first + GROUP, HISTORIES)):
        outcome = run_history(seed)
        assert outcome.acknowledged > 50


def test_the_histories_contain_every_kind_of_trouble() -> None:
    kinds = {trouble.kind for seed in range(60) for trouble in make_troubles(seed)}
    assert kinds == KINDS.keys()


@pytest.mark.parametrize("bug", [bug for bug in BUGS if bug.seed is not None], ids=lambda bug: bug.name)
def test_the_simulation_finds_a_seeded_bug(bug: SeededBug) -> None:
    assert bug.seed is not None
    with planted(bug) as node_class, pytest.raises(HistoryFailed, match=f"tests.simulation raft {bug.seed}"):
        run_history(bug.seed, node_class)


def test_the_same_seed_gives_the_same_trace_in_every_process() -> None:
    def traces(hash_seed: str) -> str:
        command = (
            "from tests.simulation.raft.history import run_history as run; print([run(n).trace for n in range(3)])"
        )
        environment = {**os.environ, "PYTHONHASHSEED": hash_seed}
        done = subprocess.run(
            [sys.executable, "-c", command], cwd=ROOT, env=environment, capture_output=True, text=True, check=True
        )
        return done.stdout

    assert traces("1") == traces("2") == f"{[run_history(seed).trace for seed in range(3)]}\n"


def test_another_seed_gives_another_trace() -> None:
    assert run_history(1).trace != run_history(2).trace
