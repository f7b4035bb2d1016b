"""Totals of simulated histories: an interrupted run continues, and a failing seed is kept."""

from __future__ import annotations

from functools import partial
from pathlib import Path

import pytest

from tests.simulation.__main__ import run_night, run_range
from tests.simulation.kinds import KINDS, Counts, Kind, Tell
from tests.simulation.seeded_bugs import NOT_FOUND, Bug, page
from tests.simulation.totals import Totals


@pytest.fixture
def ran(monkeypatch: pytest.MonkeyPatch) -> list[tuple[str, int]]:
    """Instead of histories, one event each. Seed 2 of the cluster fails."""
    seeds: list[tuple[str, int]] = []

    def run(name: str, seed: int, tell: Tell) -> Counts:
        seeds.append((name, seed))
        assert (name, seed) != ("cluster", 2), "a record is lost"
        return Counts(1, 2, 3, "trace")

    kinds = tuple(kind._replace(run=partial(run, kind.name)) for kind in KINDS)
    monkeypatch.setattr("tests.simulation.__main__.KINDS", kinds)
    return seeds


def test_a_second_night_continues_with_the_next_seeds(ran: list[tuple[str, int]], tmp_path: Path) -> None:
    path = tmp_path / "totals.json"
    assert run_night(Totals(path), machines=6, brokers=2)
    assert ran[:4] == [("raft", 0), ("raft", 1), ("replication", 0), ("replication", 1)]
    ran.clear()
    assert not run_night(Totals(path), machines=6, brokers=2)
    assert ran == [(kind.name, seed) for kind in KINDS for seed in (2, 3)]
    total = Totals(path).by_kind["raft"]
    assert (total.histories, total.events, total.faults, total.elections) == (4, 4, 8, 12)
    assert "AssertionError: a record is lost" in Totals(path).by_kind["cluster"].failed["2"]
    assert "| 2 |" in path.with_suffix(".md").read_text(encoding="utf-8")


def test_an_interrupted_night_goes_on_to_the_same_goal(tmp_path: Path) -> None:
    path = tmp_path / "totals.json"
    totals = Totals(path)
    totals.by_kind["cluster"].histories = 1
    totals.save()
    again = Totals(path)
    assert again.by_kind["cluster"].next_goal(1000) == 1000
    again.by_kind["cluster"].histories = 1000
    assert again.by_kind["cluster"].next_goal(1000) == 2000


def test_a_range_names_the_seed_that_fails(capsys: pytest.CaptureFixture[str]) -> None:
    def run(seed: int, tell: Tell) -> Counts:
        assert seed != 5
        return Counts(0, 0, 0, "")

    assert not run_range(Kind("raft", "", True, run), 4, 7)
    assert "python -m tests.simulation raft 5" in capsys.readouterr().out


def test_the_page_of_bugs_counts_those_that_are_found() -> None:
    rows = [
        (Bug("M1", "replication", "a cut", lambda: ""), "random histories, after 1"),
        (Bug("M2", "replication", "no check", lambda: ""), NOT_FOUND),
        (Bug("M3", "replication", "another cut", lambda: ""), "s3_a_scenario"),
    ]
    text = page(rows)
    assert "2 of 3 bugs are found." in text
    assert "| M3 | replication | another cut | `s3_a_scenario` |" in text
