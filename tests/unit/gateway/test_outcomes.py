"""The versions of an outcome only grow."""

from __future__ import annotations

from itertools import pairwise
from uuid import UUID

import pytest

from gateway.outcome_cache import decode_outcome, encode_outcome
from gateway.outcomes import PurchaseOutcome
from seckill.web.purchase_states import DECIDED, REFUSED, PurchaseState

REQUEST = UUID("01234567-89ab-8def-8123-456789abcdef")
ORDER = UUID("11234567-89ab-5def-8123-456789abcdef")


def row(state: str, again: bool = False) -> PurchaseOutcome:
    return PurchaseOutcome(REQUEST, "ann", 1, PurchaseState(state), ORDER, 5, again)


@pytest.mark.parametrize(
    "states",
    [
        ["RESERVED", "AWAITING_PAYMENT", "PAID", "REFUNDED"],
        ["RESERVED", "AWAITING_PAYMENT", "EXPIRED"],
        ["RESERVED", "AWAITING_PAYMENT", "CANCELLED"],
    ],
)
def test_every_step_of_a_purchase_has_a_higher_version(states: list[str]) -> None:
    versions = [row(state).version for state in states]
    assert versions == sorted(set(versions))
    for state, later in pairwise(states):
        assert row(state).version < row(state, again=True).version < row(later).version


def test_refusals_and_returned_purchases_are_final() -> None:
    assert all(row(state).is_final for state in REFUSED)
    assert not row("NOT_PLACED").is_final
    assert row("NOT_PLACED", again=True).is_final
    assert not row("CANCELLED").is_final, "the buyer still has to learn that buying again is possible"
    assert row("CANCELLED", again=True).is_final
    assert not row("PAID").is_final, "it may be refunded"


@pytest.mark.parametrize("state", DECIDED)
def test_an_outcome_survives_encoding_and_decoding(state: str) -> None:
    assert decode_outcome(REQUEST, f"{row(state).version}|{encode_outcome(row(state))}") == row(state)
