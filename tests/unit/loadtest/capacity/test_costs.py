"""What each action costs follows from runs that add one action each; the file of costs is checked when it is read."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import pytest

from loadtest.capacity import sources
from loadtest.capacity.calibration import calibrate
from loadtest.capacity.check import compare, predict
from loadtest.capacity.costs import ACTIONS, Actions, BadCosts, Costs, Run, as_json, from_json
from tests.unit.loadtest.capacity.figures import COSTS, COUNTS, IDLE, PER_ACTION, RUNS, SPEEDS, run_of


def calibrated(runs: Sequence[Run] = RUNS) -> Costs:
    return calibrate({}, 2, 0.5, IDLE, runs, COSTS.memory_mb, COSTS.records_per_s)


def test_the_costs_behind_the_runs_are_found_again() -> None:
    found = calibrated()
    for action in ACTIONS:
        for resource, cost in PER_ACTION[action].items():
            assert found.of(action, resource) == pytest.approx(cost, abs=1e-9), (action, resource)
    assert found.cpu_us("request", "gateway") == pytest.approx(200)


def test_idling_is_not_charged_to_buyers() -> None:
    without_idle = calibrate({}, 2, 0.5, {}, RUNS, {}, {})
    assert without_idle.of("request", "cpu.inventory") > calibrated().of("request", "cpu.inventory")


def test_a_poll_is_charged_only_to_the_parts_that_answer_it() -> None:
    noisy = [*RUNS]
    noisy[1] = replace(noisy[1], used={**noisy[1].used, "cpu.inventory": 99.0})
    assert calibrated(noisy).of("poll", "cpu.inventory") == 0.0


def test_runs_in_another_order_are_refused() -> None:
    with pytest.raises(ValueError, match="in this order"):
        calibrated(RUNS[::-1])


def test_a_run_without_its_own_action_is_refused() -> None:
    with pytest.raises(ValueError, match="'poll'"):
        calibrated([RUNS[0], replace(RUNS[1], actions=Actions(request=10)), *RUNS[2:]])


def test_costs_survive_their_file() -> None:
    costs = replace(COSTS, runs=tuple(RUNS))
    assert from_json(json.loads(json.dumps(as_json(costs)))) == costs


@pytest.mark.parametrize(
    ("spoil", "why"),
    [
        ({"version": 0}, "version 0"),
        ({"cores": 0}, "incomplete"),
        ({"busy_share": 1.5}, "incomplete"),
        ({"per_action": {"request": {}}}, "payment"),
    ],
)
def test_a_malformed_file_of_costs_is_refused(spoil: dict[str, object], why: str) -> None:
    with pytest.raises(BadCosts, match=why):
        from_json(as_json(COSTS) | spoil)


def test_a_missing_file_of_costs_says_how_to_make_it(tmp_path: Path) -> None:
    with pytest.raises(BadCosts, match="--measure"):
        sources.read_costs(tmp_path / "capacity.json")


def test_speeds_come_from_the_benchmarks_of_this_repository() -> None:
    speeds = sources.read_speeds(COSTS)
    assert 10_000 < 1 / speeds.decide_s < 1_000_000
    assert 0.0005 < speeds.batch_s < 0.1
    assert 5_000 < 1 / speeds.grant_s < 1_000_000
    assert speeds.accept_s == pytest.approx(1e-3), "a visit and a purchase"
    assert speeds.outcome_s == pytest.approx(SPEEDS.outcome_s)


def test_a_benchmark_without_the_row_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "decisions.json"
    path.write_text('{"results": []}')
    with pytest.raises(BadCosts, match="decisions"):
        sources.read_speeds(COSTS, path)


# ── predictions on one machine ───────────────────────────────────────────────────────────────────


def test_a_rush_takes_as_long_as_its_cpu_time_on_all_cores() -> None:
    predicted = predict(COSTS, Actions(request=10_000), over_s=0.1)
    cpu_s = 10_000 * 680e-6 + predicted.seconds * 0.03
    assert predicted.cpu_s == pytest.approx(cpu_s, rel=1e-3)
    assert predicted.seconds == pytest.approx(cpu_s / 2 / 0.9, rel=1e-3)


def test_a_rush_takes_at_least_as_long_as_its_buyers_need_to_arrive() -> None:
    assert predict(COSTS, Actions(request=10), over_s=60).seconds == 60


def test_a_process_with_more_work_than_the_others_sets_the_pace() -> None:
    predicted = predict(COSTS, Actions(unit=1_000), over_s=1)
    assert predicted.seconds == pytest.approx(6.0, rel=0.01), "Celery's process has one core"


def test_a_prediction_that_is_too_far_off_is_not_close() -> None:
    fits = run_of("fits", COUNTS["request"], seconds=predict(COSTS, COUNTS["request"], 2.0).seconds)
    slow = replace(fits, settled_s=2 * fits.settled_s)
    assert [each.is_close for each in compare(COSTS, [fits, slow])] == [True, False]
