"""The pictures of a lab, the verdict, and what a command refuses."""

from __future__ import annotations

import json
import signal
from collections.abc import Iterator, Sequence
from pathlib import Path
from xml.etree import ElementTree

import pytest

from seckill.cli.__main__ import main
from seckill.lab.labs.catalogue import LABS
from seckill.lab.labs.lab import Bar, Chart, Lab, Observation, Variant, is_expected
from seckill.lab.labs.picture import BAD, to_svg, to_text
from seckill.lab.labs.runner import LabFailed, LabResult, LabRunner

LINE = Chart("batches:", "units", ((0, 0), (1, 10), (2, 30)), limit=20, limit_name="20 units")
BARS = Chart(y="records", bars=(Bar("sent", 40), Bar("lost", 4, is_bad=True), Bar("repeated", 0, is_bad=True)))
BROKEN, FIXED = (
    Observation(10, {"buyers": 30, "why": "no lock"}, LINE),
    Observation(0, {}, Chart(line=[(0, 0), (1, 20)])),
)


@pytest.fixture(autouse=True)
def own_signal_handlers() -> Iterator[None]:
    """A command replaces them for its process."""
    before = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)}
    yield
    for number, handler in before.items():
        signal.signal(number, handler)


def test_a_picture_is_well_formed_and_shows_damage_in_its_own_color() -> None:
    svg = to_svg(LABS[1], {Variant.BROKEN: BROKEN, Variant.FIXED: FIXED})
    assert ElementTree.fromstring(svg).tag.endswith("svg")
    assert BAD in svg and "broken: 10 units" in svg
    assert BAD not in to_svg(LABS[1], {Variant.FIXED: FIXED})
    assert svg.count(BAD) > to_svg(LABS[4], {Variant.FIXED: Observation(0, {}, BARS)}).count(BAD) > 0


def test_a_line_in_a_terminal_has_the_height_of_its_values() -> None:
    text = to_text(LINE, top=30)
    assert len({len(row.partition("┈")[0].rstrip()) for row in text[1:-1] if "█" in row}) == 1, "it grows to the right"
    assert sum("┈ 20 units" in row for row in text) == 1
    full, half = to_text(LINE, 30)[1], to_text(LINE, 60)[1]
    assert "█" in full and "█" not in half


def test_bars_in_a_terminal_compare_and_only_damage_is_marked() -> None:
    sent, lost, repeated = to_text(BARS, top=40)
    assert sent.count("█") == 10 * lost.count("█") or lost.count("█") == round(sent.count("█") / 10)
    assert ["damage" in row for row in (sent, lost, repeated)] == [False, True, False]


def test_an_observation_survives_its_way_between_processes() -> None:
    for observation in (BROKEN, Observation(4, {"x": 1}, BARS)):
        assert Observation.from_json(json.loads(json.dumps(observation.as_json()))) == observation


@pytest.mark.parametrize(
    ("broken", "fixed", "expected"), [(5, 0, True), (0, 0, False), (5, 1, False), (0, 1, False), (None, 0, True)]
)
def test_a_verdict_needs_damage_where_it_is_broken_and_none_where_it_is_not(
    broken: int | None, fixed: int, expected: bool
) -> None:
    counts = {Variant.BROKEN: broken, Variant.FIXED: fixed}
    found = {variant: Observation(count, {}) for variant, count in counts.items() if count is not None}
    assert LabResult(LABS[1], found, Path("x.svg")).is_as_expected is expected
    assert all(is_expected(variant, each.damage) for variant, each in found.items()) is expected


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["99"], "N must be one of 1, 2"),
        (["-1"], "No such option"),
        (["²"], "N must be one of 1, 2"),
        (["1", "--broken", "--fixed"], "give at most one"),
        (["all", "--picture", "x.svg"], "must be a folder"),
    ],
)
def test_a_wrong_call_is_refused_with_one_clear_line(
    words: list[str], said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["lab", "run", *words]) == 2
    assert said in capsys.readouterr().err


def test_a_folder_with_an_earlier_run_is_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "servers-1").mkdir()
    assert main(["--data", str(tmp_path), "lab", "run", "1"]) == 2
    assert "is not empty" in capsys.readouterr().err


def test_the_list_is_complete(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["lab", "list", "--json"]) == 0
    listed = json.loads(capsys.readouterr().out)
    assert [each["number"] for each in listed] == list(range(1, 15))
    assert main(["lab", "list"]) == 0
    assert "oversell" in capsys.readouterr().out


@pytest.mark.parametrize(("damage", "code", "said"), [(3, 0, "as expected"), (0, 1, "not as expected")])
def test_the_exit_code_follows_the_verdict(
    damage: int,
    code: int,
    said: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    def run(runner: LabRunner, lab: Lab, variants: Sequence[Variant], picture: Path) -> LabResult:
        return LabResult(lab, {variant: Observation(damage, {"x": 1}, LINE) for variant in variants}, picture)

    monkeypatch.setattr(LabRunner, "run", run)
    assert main(["--data", str(tmp_path / "lab"), "lab", "run", "1", "--broken"]) == code
    assert f"VERDICT: {said}" in capsys.readouterr().out


def test_a_lab_that_cannot_run_is_not_a_verdict(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def fail(*_: object) -> LabResult:
        raise LabFailed("the disk is full")

    monkeypatch.setattr(LabRunner, "run", fail)
    assert main(["--data", str(tmp_path / "lab"), "lab", "run", "1"]) == 3
    assert "lab 1 could not run: the disk is full" in capsys.readouterr().err
