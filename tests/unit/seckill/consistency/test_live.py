"""Residuals: nothing apart holds; what is under way explains only as much as there is of it."""

from __future__ import annotations

from typing import Any

import pytest

from seckill.consistency.live.residuals import Counts, State, as_metrics, residuals, worst

CALM = Counts(
    oversold=0, unbalanced=0, reserved=5, placed=5, orders_without=0, twice_active=0, returned_twice=0, paid_unpaid=0,
    refunding=0, passed=12, accounted=12, decided_twice=0, overdue=0, deliveries_due=0, unpublished=0, gate_owed=0,
    most_units=1, active_units=4, gate_units=4, behind={"inventory": 0, "orders": 0, "inventory.settlement": 0},
)  # fmt: skip


def state_of(counts: Counts, name: str) -> State:
    states = {each.state for each in residuals(counts) if each.name == name}
    return next((state for state in State if state in states and state is not State.HOLDS), State.HOLDS)


def test_books_that_agree_hold() -> None:
    assert worst(residuals(CALM)) is State.HOLDS


@pytest.mark.parametrize(
    ("field", "name"),
    [
        ("oversold", "I1"), ("unbalanced", "I2"), ("orders_without", "I3"), ("decided_twice", "I9"),
        ("twice_active", "I12"), ("paid_unpaid", "I14"), ("returned_twice", "I15"), ("overdue", "I20"),
        ("mispriced", "I25"), ("misplaced", "I27"), ("misjudged", "I28"), ("misdirected", "I30"), ("astray", "I33"),
    ],
)  # fmt: skip
def test_what_nothing_under_way_explains_is_broken(field: str, name: str) -> None:
    one: dict[str, Any] = {field: 1}
    broken = CALM._replace(**one)
    assert state_of(broken, name) is State.BROKEN
    assert worst(residuals(broken)) is State.BROKEN


def test_an_order_that_is_missing_may_come_while_its_decision_is_on_its_way_and_no_longer() -> None:
    missing = CALM._replace(reserved=7)
    assert state_of(missing, "I3") is State.BROKEN
    assert state_of(missing._replace(unpublished=2), "I3") is State.IN_FLIGHT
    assert state_of(missing._replace(behind={"orders": 1}), "I3") is State.BROKEN


def test_the_gate_may_be_ahead_by_what_is_read_and_not_committed() -> None:
    ahead = CALM._replace(gate_units=6)
    assert state_of(ahead, "I4") is State.BROKEN
    assert state_of(ahead._replace(behind={"inventory": 2}), "I4") is State.IN_FLIGHT
    assert state_of(ahead._replace(behind={"inventory": 1}), "I4") is State.BROKEN
    assert state_of(ahead._replace(behind={"inventory": 1}, most_units=2), "I4") is State.IN_FLIGHT


def test_what_cannot_be_read_is_unknown_and_not_well() -> None:
    assert state_of(CALM._replace(gate_units=None), "I4") is State.UNKNOWN
    assert state_of(CALM._replace(behind=None), "I9") is State.UNKNOWN


@pytest.mark.parametrize(("passed", "accounted"), [(13, 12), (12, 13)])
def test_a_request_gone_past_without_a_trace_is_broken_and_so_is_a_trace_of_none(passed: int, accounted: int) -> None:
    assert state_of(CALM._replace(passed=passed, accounted=accounted), "I9") is State.BROKEN


def test_metrics_have_a_line_for_each_residual_that_is_known() -> None:
    text = as_metrics(residuals(CALM._replace(oversold=3, gate_units=None)))
    assert 'seckill_residual{invariant="I1",what="units oversold"} 3' in text
    assert 'seckill_residual{invariant="I4"' not in text
    assert text.endswith("seckill_invariants_broken 1\n")


def test_a_buyer_may_wait_to_be_told_while_the_release_is_on_its_way_and_no_longer() -> None:
    waiting = CALM._replace(kept_waiting=1)
    assert state_of(waiting, "I26") is State.BROKEN
    assert state_of(waiting._replace(behind={"gateway.outcomes": 1}), "I26") is State.IN_FLIGHT
    assert state_of(waiting._replace(unpublished=1), "I26") is State.IN_FLIGHT
