"""The provider's log beside ours: the table is whole, and money never passes it unseen."""

from __future__ import annotations

from itertools import product

import pytest

from orders.payments.matching import FINDINGS, Finding, judge
from orders.reconciling import WORDS

STATES = (None, "open", "captured", "voided", "refunding", "refunded")


def test_the_table_says_something_of_whatever_may_meet() -> None:
    assert set(FINDINGS) == set(product(WORDS, STATES))


@pytest.mark.parametrize("state", [None, "open", "voided"])
def test_captured_money_that_we_do_not_count_is_always_found(state: str | None) -> None:
    assert judge("captured", 100, None if state is None else (state, 100)) is not Finding.AGREES


@pytest.mark.parametrize("state", [state for state in STATES if state not in (None, "refunded")])
def test_money_given_back_that_we_do_not_count_is_always_found(state: str) -> None:
    assert judge("refunded", 100, (state, 100)) is not Finding.AGREES


@pytest.mark.parametrize(("what", "state"), [(what, state) for what, state in FINDINGS if state is not None])
def test_another_amount_is_always_found(what: str, state: str) -> None:
    assert judge(what, 99, (state, 100)) is Finding.AMOUNT_DIFFERS
