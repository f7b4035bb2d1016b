"""A rush in simulated time: waits follow from the stage that is slowest, and every buyer is decided once."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise

import pytest

from loadtest.capacity.simulation import Processes, Rush, simulate
from tests.unit.loadtest.capacity.figures import SPEEDS

RUSH = Rush(buyers=20_000, over_s=2.0, units=1_000)
AMPLE = Processes(gateways=1_000, partitions=32, inventory=32, outcomes=32, relays=32)


def test_the_same_seed_gives_the_same_waits() -> None:
    assert simulate(RUSH, AMPLE, SPEEDS, seed=7) == simulate(RUSH, AMPLE, SPEEDS, seed=7)
    assert simulate(RUSH, AMPLE, SPEEDS, seed=7) != simulate(RUSH, AMPLE, SPEEDS, seed=8)


@pytest.mark.parametrize(("units", "granted"), [(0, 0), (1_000, 1_000), (40_000, 20_000)])
def test_no_unit_is_granted_twice_and_none_is_kept_back(units: int, granted: int) -> None:
    assert simulate(replace(RUSH, units=units), AMPLE, SPEEDS).granted == granted


def test_without_a_queue_a_buyer_waits_for_two_batches() -> None:
    waits = simulate(Rush(1_000, 10.0, 0), AMPLE, SPEEDS)
    assert 2 * 0.5 * SPEEDS.batch_s < waits.p50_s < 4 * SPEEDS.batch_s


@pytest.mark.parametrize(
    ("slow", "processes", "busy_s"),
    [
        ("inventory", replace(AMPLE, inventory=1), 100_000 * SPEEDS.decide_s),
        ("the relay", replace(AMPLE, relays=1), 100_000 * SPEEDS.publish_s),
        ("outcomes", replace(AMPLE, outcomes=1), 100_000 * SPEEDS.outcome_s),
        ("gateways", replace(AMPLE, gateways=5), 100_000 * SPEEDS.accept_s / 5),
    ],
)
def test_the_slowest_stage_decides_when_the_last_buyer_knows(slow: str, processes: Processes, busy_s: float) -> None:
    at_once = Rush(100_000, 0.001, 0)
    ended = simulate(at_once, processes, SPEEDS).ended_s
    assert busy_s <= ended < 1.5 * busy_s + 0.5, slow


def test_the_stock_row_serializes_grants_however_many_consumers_there_are() -> None:
    everybody = Rush(100_000, 0.001, 100_000)
    assert simulate(everybody, AMPLE, SPEEDS).ended_s >= 100_000 * SPEEDS.grant_s
    assert simulate(everybody, replace(AMPLE, stock_rows=4), SPEEDS).ended_s < 0.5 * 100_000 * SPEEDS.grant_s


def test_more_consumers_never_make_buyers_wait_longer() -> None:
    waits = [simulate(RUSH, replace(AMPLE, inventory=count), SPEEDS).p99_s for count in (1, 2, 4, 8)]
    assert all(after <= 1.02 * before for before, after in pairwise(waits))


def test_more_buyers_wait_longer() -> None:
    few = replace(AMPLE, inventory=1)
    waits = [simulate(replace(RUSH, buyers=count), few, SPEEDS).p99_s for count in (10_000, 100_000, 400_000)]
    assert waits == sorted(waits)


def test_consumers_beyond_the_partitions_stand_by() -> None:
    twelve = replace(AMPLE, partitions=12, inventory=12)
    assert simulate(RUSH, twelve, SPEEDS) == simulate(RUSH, replace(twelve, inventory=30), SPEEDS)


def test_ten_million_buyers_take_one_event_for_each_batch() -> None:
    waits = simulate(Rush(10_000_000, 10.0, 250_000), replace(AMPLE, gateways=10_000), SPEEDS)
    assert 10_000 <= waits.batches < 20_000
    assert waits.p50_s < waits.p99_s <= waits.max_s <= waits.ended_s


def test_fewer_buyers_than_partitions_are_all_decided() -> None:
    assert simulate(Rush(3, 1.0, 3), AMPLE, SPEEDS).granted == 3


@pytest.mark.parametrize(("buyers", "over_s", "units"), [(0, 1.0, 1), (1, 0.0, 1), (1, 1.0, -1)])
def test_an_impossible_rush_is_refused(buyers: int, over_s: float, units: int) -> None:
    with pytest.raises(ValueError, match="a rush needs"):
        Rush(buyers, over_s, units)


def test_a_stage_without_a_process_is_refused() -> None:
    with pytest.raises(ValueError, match="at least one"):
        replace(AMPLE, inventory=0)
