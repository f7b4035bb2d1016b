"""What events mean to a buyer, and that it only goes forward."""

from __future__ import annotations

from itertools import pairwise
from uuid import UUID

import pytest

from gateway.outcomes import RANKS, REFUSED, Shown
from gateway.shown import decode, encode

REQUEST = UUID("01234567-89ab-8def-8123-456789abcdef")
ORDER = UUID("11234567-89ab-5def-8123-456789abcdef")


def row(state: str, again: bool = False) -> Shown:
    return Shown(REQUEST, "ann", 1, state, ORDER, 5, again)


@pytest.mark.parametrize(
    "states",
    [
        ["RESERVED", "AWAITING_PAYMENT", "PAID", "REFUNDED"],
        ["RESERVED", "AWAITING_PAYMENT", "EXPIRED"],
        ["RESERVED", "AWAITING_PAYMENT", "CANCELLED"],
    ],
)
def test_each_step_of_a_purchase_is_a_newer_version(states: list[str]) -> None:
    versions = [row(state).version for state in states]
    assert versions == sorted(set(versions))
    for state, later in pairwise(states):
        assert row(state).version < row(state, again=True).version < row(later).version


def test_refusals_and_ended_orders_whose_units_are_back_are_final() -> None:
    assert all(row(state).is_final for state in REFUSED)
    assert not row("NOT_PLACED").is_final
    assert row("NOT_PLACED", again=True).is_final
    assert not row("CANCELLED").is_final, "he will be told that he may buy again"
    assert row("CANCELLED", again=True).is_final
    assert not row("PAID").is_final, "it may be refunded"


@pytest.mark.parametrize("state", RANKS)
def test_what_is_kept_in_redis_is_read_back(state: str) -> None:
    assert decode(REQUEST, f"{row(state).version}|{encode(row(state))}") == row(state)
