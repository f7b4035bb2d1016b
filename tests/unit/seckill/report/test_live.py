"""Residuals hold if counts are equal; work in flight explains differences only up to its own size."""

from __future__ import annotations

from typing import Any

import pytest

from seckill.report.live.residuals import LiveCounts, ResidualState, as_metrics, residuals, worst_state

CALM = LiveCounts(
    oversold=0, unbalanced=0, reserved=5, placed=5, orders_without=0, twice_active=0, returned_twice=0, paid_unpaid=0,
    refunding=0, passed=12, accounted=12, decided_twice=0, overdue=0, deliveries_due=0, unpublished=0,
    gate_releases_due=0, most_units=1, active_units=4, gate_units=4,
    behind={"inventory": 0, "orders": 0, "inventory.settlement": 0},
)  # fmt: skip


def state_of(counts: LiveCounts, name: str) -> ResidualState:
    states = {each.state for each in residuals(counts) if each.name == name}
    return next(
        (state for state in ResidualState if state in states and state is not ResidualState.HOLDS), ResidualState.HOLDS
    )


def test_equal_counts_hold() -> None:
    assert worst_state(residuals(CALM)) is ResidualState.HOLDS


@pytest.mark.parametrize(
    ("field", "name"),
    [
        ("oversold", "I1"), ("unbalanced", "I2"), ("orders_without", "I3"), ("decided_twice", "I9"),
        ("twice_active", "I12"), ("paid_unpaid", "I14"), ("returned_twice", "I15"), ("overdue", "I20"),
        ("mispriced", "I25"), ("misplaced", "I27"), ("misjudged", "I28"), ("misdirected", "I30"), ("astray", "I33"),
    ],
)  # fmt: skip
def test_a_residual_that_nothing_in_flight_explains_is_broken(field: str, name: str) -> None:
    one: dict[str, Any] = {field: 1}
    broken = CALM._replace(**one)
    assert state_of(broken, name) is ResidualState.BROKEN
    assert worst_state(residuals(broken)) is ResidualState.BROKEN


def test_a_missing_order_is_in_flight_only_while_its_decision_is() -> None:
    missing = CALM._replace(reserved=7)
    assert state_of(missing, "I3") is ResidualState.BROKEN
    assert state_of(missing._replace(unpublished=2), "I3") is ResidualState.IN_FLIGHT
    assert state_of(missing._replace(behind={"orders": 1}), "I3") is ResidualState.BROKEN


def test_the_gate_may_be_ahead_only_by_the_units_in_flight() -> None:
    ahead = CALM._replace(gate_units=6)
    assert state_of(ahead, "I4") is ResidualState.BROKEN
    assert state_of(ahead._replace(behind={"inventory": 2}), "I4") is ResidualState.IN_FLIGHT
    assert state_of(ahead._replace(behind={"inventory": 1}), "I4") is ResidualState.BROKEN
    assert state_of(ahead._replace(behind={"inventory": 1}, most_units=2), "I4") is ResidualState.IN_FLIGHT


def test_a_count_that_cannot_be_read_is_unknown() -> None:
    assert state_of(CALM._replace(gate_units=None), "I4") is ResidualState.UNKNOWN
    assert state_of(CALM._replace(behind=None), "I9") is ResidualState.UNKNOWN


@pytest.mark.parametrize(("passed", "accounted"), [(13, 12), (12, 13)])
def test_a_request_skipped_without_a_decision_is_broken_and_so_is_a_decision_without_a_request(
    passed: int, accounted: int
) -> None:
    assert state_of(CALM._replace(passed=passed, accounted=accounted), "I9") is ResidualState.BROKEN


def test_metrics_have_a_line_for_each_residual_that_is_known() -> None:
    text = as_metrics(residuals(CALM._replace(oversold=3, gate_units=None)))
    assert 'seckill_residual{invariant="I1",what="units oversold"} 3' in text
    assert 'seckill_residual{invariant="I4"' not in text
    assert text.endswith("seckill_invariants_broken 1\n")


def test_a_wrong_right_to_buy_again_is_in_flight_only_while_the_release_is() -> None:
    waiting = CALM._replace(kept_waiting=1)
    assert state_of(waiting, "I26") is ResidualState.BROKEN
    assert state_of(waiting._replace(behind={"gateway.outcomes": 1}), "I26") is ResidualState.IN_FLIGHT
    assert state_of(waiting._replace(unpublished=1), "I26") is ResidualState.IN_FLIGHT
