"""The states of a purchase are listed once, and every user of the list agrees with it."""

from __future__ import annotations

import pytest
from django.utils import translation

from gateway.api.schemas import SCHEMAS
from gateway.models import Outcome
from gateway.outcomes import STATE_AFTER
from inventory.events import Decision
from seckill.web.purchase_states import DECIDED, ENDED, REFUSED, RETURNED, PurchaseState


def test_every_decision_of_inventory_is_a_purchase_state() -> None:
    assert {decision.value for decision in Decision} - {"RESERVED"} == {state.value for state in REFUSED}


def test_the_table_accepts_every_decided_state_and_no_other() -> None:
    [constraint] = Outcome._meta.constraints
    assert dict(constraint.condition.children)["state__in"] == [state.value for state in DECIDED]  # type: ignore[attr-defined]
    assert set(PurchaseState) - set(DECIDED) == {PurchaseState.QUEUED}


def test_the_api_schema_lists_every_state() -> None:
    assert SCHEMAS["Outcome"]["properties"]["state"]["enum"] == PurchaseState.values


def test_a_purchase_passes_through_states_of_growing_rank() -> None:
    path = [PurchaseState.QUEUED, PurchaseState.RESERVED, PurchaseState.AWAITING_PAYMENT, PurchaseState.PAID]
    assert [state.rank for state in path] == sorted({state.rank for state in path})
    assert all(state.rank > PurchaseState.AWAITING_PAYMENT.rank for state in RETURNED)
    assert min(state.rank for state in REFUSED) > max(state.rank for state in set(PurchaseState) - REFUSED)


def test_a_purchase_has_not_ended_while_its_buyer_can_still_pay() -> None:
    assert set(PurchaseState) - {PurchaseState.QUEUED, PurchaseState.RESERVED, PurchaseState.AWAITING_PAYMENT} == ENDED
    assert set(STATE_AFTER.values()) - ENDED == {PurchaseState.AWAITING_PAYMENT}


@pytest.mark.parametrize("state", PurchaseState)
def test_every_state_has_a_chinese_label(state: PurchaseState) -> None:
    with translation.override("en"):
        english = str(state.label)
    with translation.override("zh-hans"):
        assert str(state.label) != english
