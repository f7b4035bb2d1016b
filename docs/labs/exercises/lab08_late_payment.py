"""Lab 8 · payment after expiry: three small tasks about a lifecycle."""

from __future__ import annotations

from dataclasses import dataclass

PENDING, PAID, EXPIRED, REFUNDED = "PENDING_PAYMENT", "PAID", "EXPIRED", "REFUNDED"
TRANSITIONS = {(PENDING, PAID), (PENDING, EXPIRED), (PAID, REFUNDED)}


@dataclass
class Order:
    state: str = PENDING


@dataclass
class Payment:
    amount: int
    state: str = "open"  # open, captured, refunding, refunded


def move_order(order: Order, before: str, after: str) -> bool:
    """Task 1: UPDATE … SET state = after WHERE state = before. False: the order was in another state. A move that the
    table does not have is a bug: raise ValueError."""
    raise NotImplementedError("task 8.1")


def record_capture(order: Order, payment: Payment) -> None:
    """Task 2: the provider has the money. If the order still waits, it becomes PAID and the payment captured. If not,
    the money must go back: refunding. The callback may come any number of times; only the first counts."""
    raise NotImplementedError("task 8.2")


def money_balances(state: str, amount: int, captured: int, refunded: int) -> bool:
    """Task 3: whether the money of an order is right: we keep its amount if it is PAID, and nothing in any other state.
    Money never goes back that did not come."""
    raise NotImplementedError("task 8.3")
