"""The table of findings is complete, and no movement of money goes unnoticed."""

from __future__ import annotations

from itertools import product

import pytest

from orders.payments.matching import FINDINGS, Finding, match_movement
from orders.reconciliation import MOVEMENT_KINDS

STATES = (None, "open", "captured", "voided", "refunding", "refunded")


def test_the_table_covers_every_combination() -> None:
    assert set(FINDINGS) == set(product(MOVEMENT_KINDS, STATES))


@pytest.mark.parametrize("state", [None, "open", "voided"])
def test_a_capture_that_is_not_recorded_here_is_always_found(state: str | None) -> None:
    assert match_movement("captured", 100, None if state is None else (state, 100)) is not Finding.AGREES


@pytest.mark.parametrize("state", [state for state in STATES if state not in (None, "refunded")])
def test_a_refund_that_is_not_recorded_here_is_always_found(state: str) -> None:
    assert match_movement("refunded", 100, (state, 100)) is not Finding.AGREES


@pytest.mark.parametrize(("what", "state"), [(what, state) for what, state in FINDINGS if state is not None])
def test_a_different_amount_is_always_found(what: str, state: str) -> None:
    assert match_movement(what, 99, (state, 100)) is Finding.AMOUNT_DIFFERS
