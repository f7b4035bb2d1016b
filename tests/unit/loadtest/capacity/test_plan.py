"""From a wish to the number of everything: units, monotony, bad input, and wishes that cannot be met."""

from __future__ import annotations

import json
from dataclasses import replace
from math import ceil
from pathlib import Path

import pytest

from loadtest.capacity import __main__ as command
from loadtest.capacity.check import compare
from loadtest.capacity.costs import as_json
from loadtest.capacity.plan import NEXT_DESIGN, Plan, Wish, make_plan, polls_per_buyer
from loadtest.capacity.report import page, plan_text
from tests.unit.loadtest.capacity.figures import COSTS, RUNS, SPEEDS

WISH = Wish(buyers=100_000, over_s=10.0, units=1_000, wait_p99_s=10.0)


def plan(wish: Wish = WISH) -> Plan:
    return make_plan(wish, COSTS, SPEEDS)


def counts(found: Plan) -> dict[str, int]:
    return {part.name: part.count for part in found.parts}


def test_a_wish_becomes_processes_by_the_cpu_that_they_need() -> None:
    found = plan()
    polls = polls_per_buyer(found.waits.p99_s)
    gateway_cores = 10_000 * 0.001 + 5_000 * polls * 100e-6
    assert counts(found)["gateways"] == ceil(gateway_cores / 0.7)
    assert counts(found)["gateway.outcomes"] == 1, "5,000 a second; one serves 10,000"
    assert counts(found)["orders"] == 1, "5,000 a second; one serves 8,000"
    assert counts(found)["brokers"] == 4, "7,500 records/s of 100 µs, in three copies, are 2.25 cores"
    assert found.is_met and found.waits.p99_s <= WISH.wait_p99_s


def test_needs_have_the_right_units() -> None:
    needs = {part.name: part.need for part in plan().parts}
    assert "10,000 buyers/s" in needs["gateways"]
    assert "0.1 GB" in needs["brokers"], "100,000 requests of 900 bytes"
    assert "5,000 rows/s; one publishes 40,000" in needs["relay"]
    assert "1,000 units" in needs["stock row"] and "0.0 s" in needs["stock row"]
    assert "MB/s of WAL" in needs["Postgres"]


@pytest.mark.parametrize("sharper", [replace(WISH, buyers=400_000), replace(WISH, over_s=2.5)])
def test_a_sharper_rush_needs_no_less_of_anything(sharper: Wish) -> None:
    before, after = counts(plan()), counts(plan(sharper))
    assert all(after[name] >= before[name] for name in before)
    assert after["gateways"] > before["gateways"]


def test_a_longer_wait_needs_fewer_consumers_of_inventory() -> None:
    quick, slow = (
        plan(replace(WISH, buyers=500_000, wait_p99_s=5.0)),
        plan(replace(WISH, buyers=500_000, wait_p99_s=60)),
    )
    assert counts(slow)["inventory"] < counts(quick)["inventory"]


def test_every_consumer_has_a_partition() -> None:
    found = plan(replace(WISH, buyers=3_000_000, wait_p99_s=60.0))
    assert found.processes.partitions >= max(found.processes.inventory, found.processes.outcomes)


def test_the_relay_is_the_wall_of_a_great_rush_and_the_wish_cannot_be_met() -> None:
    found = plan(replace(WISH, buyers=3_000_000))
    assert not found.is_met
    assert found.wall.name in ("relay", "Redis") and (found.wall.share or 0) > 1
    text = plan_text(found)
    assert "cannot be met" in text and NEXT_DESIGN[found.wall.name] in text


def test_the_stock_row_is_the_wall_when_nearly_everybody_gets_a_unit() -> None:
    found = make_plan(replace(WISH, units=100_000), COSTS, replace(SPEEDS, grant_s=400e-6, publish_s=1e-6))
    assert found.wall.name == "stock row" and not found.is_met
    assert "several stock rows" in plan_text(found)


def test_more_units_than_buyers_are_not_sold() -> None:
    assert plan(replace(WISH, units=10**9)).waits.granted == WISH.buyers


def test_brokers_that_exist_are_not_counted_again() -> None:
    assert counts(plan(replace(WISH, brokers=5)))["brokers"] == 5


def test_too_few_brokers_of_our_own_are_the_wall() -> None:
    found = plan(replace(WISH, brokers=1, buyers=200_000))
    assert found.wall.name == "brokers" and not found.is_met
    assert "Apache Kafka" in NEXT_DESIGN["brokers"]


def test_clients_poll_less_often_the_longer_they_wait() -> None:
    assert polls_per_buyer(0.4) == 1
    assert 60 / 5 < polls_per_buyer(60) < 2 * polls_per_buyer(60 / 2) < 60 / 0.5


@pytest.mark.parametrize(
    ("option", "value"),
    [("--buyers", "0"), ("--buyers", "1000000000"), ("--over", "0"), ("--over", "601"), ("--units", "-1"),
     ("--wait-p99", "0"), ("--brokers", "0")],
)  # fmt: skip
def test_bad_input_is_one_line_that_names_the_option(
    capsys: pytest.CaptureFixture[str], option: str, value: str
) -> None:
    assert command.main([option, value]) == 2
    said = capsys.readouterr().err
    assert option in said and said.count("\n") == 1


def test_missing_costs_are_one_line(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    assert command.main(["--costs", str(tmp_path / "none.json")]) == 2
    assert "--measure" in capsys.readouterr().err


@pytest.mark.parametrize(("buyers", "code"), [("1000", 0), ("9000000", 1)])
def test_the_exit_code_says_whether_the_wish_can_be_met(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, buyers: str, code: int
) -> None:
    costs = tmp_path / "capacity.json"
    costs.write_text(json.dumps(as_json(COSTS)))
    assert command.main(["--costs", str(costs), "--buyers", buyers, "--units", "10", "--json"]) == code
    said = json.loads(capsys.readouterr().out)
    assert said["is_met"] is (code == 0) and said["wall"]


def test_the_page_marks_predictions_that_are_too_far_off() -> None:
    close = RUNS[0]
    text = page(
        replace(COSTS, runs=tuple(RUNS)),
        SPEEDS,
        compare(COSTS, [close, replace(close, settled_s=0.1)]),
        plan(),
        "x.svg",
    )
    assert "✗" in text and "a purchase, from the call to the outcome" in text
