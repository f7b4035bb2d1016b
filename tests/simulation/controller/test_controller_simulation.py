"""Histories of a cluster's metadata: brokers and controllers fail, requests come late, and an operator goes on working.

`CONTROLLER_HISTORIES=5000` runs more of them. A history that fails is repeated, with its log, by the command in the
message.
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from mqcore.controller.facts import MetadataFact
from tests.simulation.controller.controller_world import run_history
from tests.simulation.controller.seeded_bugs import BUGS, SeededBug

ROOT = Path(__file__).parents[3]
HISTORIES = int(os.environ.get("CONTROLLER_HISTORIES", "120"))
HISTORIES_UNTIL_FOUND = 30


def test_no_history_violates_what_must_hold() -> None:
    kinds: set[type[MetadataFact]] = set()
    for seed in range(HISTORIES):
        world = run_history(seed)
        kinds |= {type(fact) for fact in world.log}
        assert not world.violations, f"{world.violations}; repeat it: python -m tests.simulation controller {seed}"
    assert len(kinds) >= 10, "the histories have every kind of fact but producer ids"


def test_the_same_seed_gives_the_same_history_in_every_process() -> None:
    script = (
        "from tests.simulation.controller.controller_world import run_history\n"
        "print(run_history(7).trace(), run_history(8).trace())"
    )
    traces = {
        subprocess.run(
            [sys.executable, "-c", script],
            env={**os.environ, "PYTHONHASHSEED": seed},
            capture_output=True,
            text=True,
            check=True,
            cwd=ROOT,
        ).stdout
        for seed in ("1", "2")
    }
    (trace,) = traces
    assert len(set(trace.split())) == 2, "another seed gives another history"


@pytest.mark.parametrize("bug", BUGS, ids=lambda bug: bug.name)
def test_a_bug_that_is_put_in_is_found(bug: SeededBug, monkeypatch: pytest.MonkeyPatch) -> None:
    directed = None if bug.directed is None else bug.directed()
    bug.put_in(monkeypatch)
    if directed is None:
        assert any(run_history(seed).violations for seed in range(HISTORIES_UNTIL_FOUND)), bug.broken
    else:
        with pytest.raises(AssertionError):
            directed.test(*directed.arguments)
