"""Lab 8: .venv/bin/pytest docs/labs/exercises/test_lab08.py"""

from __future__ import annotations

import pytest

from docs.labs.exercises import lab08_late_payment as lab


def test_1_an_order_moves_once_and_only_along_the_table() -> None:
    order = lab.Order()
    assert lab.move_order(order, "PENDING_PAYMENT", "EXPIRED")
    assert not lab.move_order(order, "PENDING_PAYMENT", "PAID")
    assert order.state == "EXPIRED"
    with pytest.raises(ValueError):
        lab.move_order(order, "EXPIRED", "PAID")


@pytest.mark.parametrize(
    ("before", "after", "money"),
    [("PENDING_PAYMENT", "PAID", "captured"), ("EXPIRED", "EXPIRED", "refunding"), ("PAID", "PAID", "refunding")],
)
def test_2_late_money_goes_back_once(before: str, after: str, money: str) -> None:
    order, payment = lab.Order(before), lab.Payment(100)
    for _ in range(3):
        lab.record_capture(order, payment)
        assert (order.state, payment.state) == (after, money)
    payment.state = "refunded"
    lab.record_capture(order, payment)
    assert payment.state == "refunded"


def test_3_money_is_kept_only_for_paid_orders() -> None:
    right = [("PAID", 100, 100, 0), ("PAID", 100, 200, 100), ("EXPIRED", 100, 100, 100), ("EXPIRED", 100, 0, 0)]
    wrong = [("PAID", 100, 0, 0), ("PAID", 100, 200, 0), ("EXPIRED", 100, 100, 0), ("EXPIRED", 100, 0, 100),
             ("REFUNDED", 100, 100, 0)]  # fmt: skip
    assert all(lab.money_balances(*case) for case in right)
    assert not any(lab.money_balances(*case) for case in wrong)
