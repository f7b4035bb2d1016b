"""A scenario can be told step by step, and a seeded bug shows in what is told."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.simulation.replication.scenarios import SCENARIOS
from tests.simulation.replication.seeded_bugs import SEEDED_BUGS, SeededBug
from tests.simulation.replication.setup import Setup
from tests.simulation.replication.told import tell

TRUNCATION = {"M1": "s1_", "M2": "s2_", "M3": "s3_"}
PAGE = Path(__file__).parents[3] / "docs" / "truncation.md"
PICTURE = re.compile(r"replication s\d --bug (M\d) .*\n\n((?: {4}.*\n)+)")


@pytest.mark.parametrize("name", SCENARIOS)
def test_a_told_scenario_holds(name: str) -> None:
    assert tell(SCENARIOS[name], Setup())


@pytest.mark.parametrize("bug", [bug for bug in SEEDED_BUGS if bug.name in TRUNCATION], ids=lambda bug: bug.name)
def test_a_told_scenario_shows_what_a_wrong_truncation_does(bug: SeededBug, capsys: pytest.CaptureFixture[str]) -> None:
    scenario = next(value for key, value in SCENARIOS.items() if key.startswith(TRUNCATION[bug.name]))
    assert not tell(scenario, bug.setup)
    told = capsys.readouterr().out
    assert "FAILED: assert bench.records(" in told
    assert ("VIOLATED leader candidate completeness" in told) == (bug.name == "M1"), (
        "unclean elections may lose records"
    )


def test_after_a_cut_at_the_high_watermark_the_last_leader_has_an_empty_log(capsys: pytest.CaptureFixture[str]) -> None:
    bug = next(bug for bug in SEEDED_BUGS if bug.name == "M1")
    scenario = SCENARIOS["s1_a_follower_keeps_what_is_above_its_high_watermark_when_the_leader_changes"]
    tell(scenario, bug.setup)
    last = capsys.readouterr().out.partition("the metadata reach broker 3")[2].partition("\n")[0]
    assert last.split() == ["†0¹", "1¹", "|", "†|", "0¹", "1¹", "*|"]


def test_the_pictures_of_the_page_are_what_is_told(capsys: pytest.CaptureFixture[str]) -> None:
    pictures = dict(PICTURE.findall(PAGE.read_text(encoding="utf-8")))
    assert pictures.keys() == {"M1", "M3"}
    for bug in (bug for bug in SEEDED_BUGS if bug.name in pictures):
        tell(next(value for key, value in SCENARIOS.items() if key.startswith(TRUNCATION[bug.name])), bug.setup)
        told = iter(capsys.readouterr().out.splitlines())
        for line in pictures[bug.name].splitlines():
            wanted = line[4:].partition("…")[0]
            assert any(each.startswith(wanted) for each in told), f"{bug.name} does not tell, in this order: {wanted}"


def test_a_scenario_that_does_not_exist_is_one_clear_line() -> None:
    said = subprocess.run(
        [sys.executable, "-m", "tests.simulation.replication", "s99"], capture_output=True, text=True, timeout=60
    )
    assert said.returncode == 2
    assert said.stderr.splitlines()[-1].endswith("no scenario is called s99")
