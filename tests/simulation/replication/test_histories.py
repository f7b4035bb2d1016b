"""Random histories of three brokers: nothing acknowledged is lost, and after healing everything is whole again.

`REPLICATION_HISTORIES=5000 .venv/bin/pytest tests/simulation/replication/test_histories.py` runs more of them, and so
does `python -m tests.simulation.replication 0:5000`, which can also repeat a single seed.
"""

from __future__ import annotations

import os
import subprocess
import sys
from collections import Counter
from pathlib import Path

import pytest

from mqcore.identity import Millis
from mqcore.partitions.follower import FollowerState, Step
from mqcore.partitions.isr import Isr
from mqcore.partitions.log_view import LogView
from mqcore.partitions.reads import ReplicaFetch
from mqcore.partitions.terms import AlterOutcome, Proposal
from mqcore.wire.fetch import FetchedPartition
from tests.simulation.replication.history_run import run_history
from tests.simulation.replication.replica import Parts
from tests.simulation.replication.setup import Setup
from tests.simulation.replication.truth import Violated
from tests.simulation.replication.world import World

ROOT = Path(__file__).parents[3]
COUNT = int(os.environ.get("REPLICATION_HISTORIES", "60"))
CHUNK = 10


@pytest.mark.parametrize("first", range(0, COUNT, CHUNK))
def test_no_history_breaks_a_property_of_the_replicated_log(first: int) -> None:
    for seed in range(first, min(COUNT, first + CHUNK)):
        run_history(seed)


def test_the_histories_reach_what_they_are_about() -> None:
    """Elections, cuts, refused and unknown proposals: a workload that never meets them would prove nothing."""
    met: Counter[str] = Counter()

    class Watched(FollowerState):
        def decide(self, asked: ReplicaFetch, answer: FetchedPartition, log: LogView, now: Millis) -> Step:
            step = super().decide(asked, answer, log, now)
            met[type(step).__name__] += 1
            return step

    settle = Isr.settle

    def watch(self: Isr, proposal: Proposal, outcome: AlterOutcome) -> bool:
        met[type(outcome).__name__] += 1
        return settle(self, proposal, outcome)

    wanted = {
        "Append",
        "Truncate",
        "Back",
        "Ignore",
        "Applied",
        "NotApplied",
        "Unknown",
        "election",
        "durable",
        "cached",
    }
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Isr, "settle", watch)
        for seed in range(COUNT):
            world = run_history(seed, Setup(Parts(follower=Watched)))
            met["election"] += world.elections
            met["durable" if world.durable_only else "cached"] += 1
            if wanted <= met.keys():
                break
    assert wanted <= met.keys(), met


def test_the_same_seed_gives_the_same_trace_whatever_the_hash_seed() -> None:
    program = (
        "from tests.simulation.replication.history_run import run_history\n"
        "print(*(run_history(seed).events.trace_hash for seed in range(3)))"
    )
    traces = {
        subprocess.run(
            [sys.executable, "-c", program],
            cwd=ROOT,
            env={**os.environ, "PYTHONHASHSEED": hash_seed, "PYTHONPATH": str(ROOT)},
            capture_output=True,
            text=True,
            check=True,
            timeout=100,
        ).stdout
        for hash_seed in ("1", "2")
    }
    assert len(traces) == 1
    assert len(set(traces.pop().split())) == 3, "another seed gives another trace"


def test_a_failing_history_says_how_to_repeat_it() -> None:
    class Hasty(World):
        def heal(self) -> None:
            raise Violated("liveness", "made up")

    with pytest.MonkeyPatch.context() as patch, pytest.raises(Violated) as failed:
        patch.setattr("tests.simulation.replication.history_run.World", Hasty)
        run_history(17)
    assert "python -m tests.simulation.replication 17" in failed.value.__notes__[0]
