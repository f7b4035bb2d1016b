"""The pages of the shop: the phase of a sale, the words about a purchase, and a queued request's page."""

from __future__ import annotations

import dataclasses
from uuid import uuid4

import pytest
from django.test import Client

from gateway import from_threads, sales
from gateway.backlog import Estimate
from gateway.pages import attempts
from gateway.pages.outcome_texts import describe_outcome, purchase_steps
from gateway.pages.sale_phase import SalePhase, sale_phase
from gateway.purchase_status import PurchaseStatus
from inventory.events import SaleView
from seckill.web import tokens
from seckill.web.pages import COOKIE
from seckill.web.purchase_states import REFUSED, RETURNED, PurchaseState

SALE = SaleView(1, "Gong", "phone", 9900, 1, 10, 10, 0, 0, 1, "open", 1000, 2000)
COUNTS_DOWN = {PurchaseState.QUEUED, PurchaseState.AWAITING_PAYMENT}


@pytest.mark.parametrize(
    ("now_ms", "changed", "phase"),
    [
        (999, {}, "upcoming"),
        (1000, {}, "open"),
        (1500, {"available": 0, "reserved": 1, "sold": 9}, "all_held"),
        (1500, {"available": 0, "sold": 10}, "sold_out"),
        (1500, {"state": "paused"}, "paused"),
        (999, {"state": "paused"}, "upcoming"),
        (1500, {"state": "closed"}, "closed"),
        (999, {"state": "closed"}, "closed"),
        (2000, {}, "closed"),
    ],
)
def test_the_phase_follows_from_the_window_the_stock_and_the_operator(
    now_ms: int, changed: dict[str, object], phase: str
) -> None:
    view = dataclasses.replace(SALE, **changed)  # type: ignore[arg-type]
    assert sale_phase(view, now_ms) is SalePhase(phase)


@pytest.mark.parametrize("state", PurchaseState)
def test_every_state_has_a_headline_unless_its_page_counts_down(state: PurchaseState) -> None:
    text = describe_outcome(state, may_buy_again=False, phase=SalePhase.OPEN)
    assert (text is None) == (state in COUNTS_DOWN)


@pytest.mark.parametrize("state", sorted(RETURNED))
def test_a_returned_unit_can_be_bought_again_only_once_it_is_back(state: PurchaseState) -> None:
    returning = describe_outcome(state, may_buy_again=False, phase=None)
    returned = describe_outcome(state, may_buy_again=True, phase=None)
    assert returning is not None and returned is not None
    assert returning.headline == returned.headline and returning.detail != returned.detail


def test_all_units_reserved_is_not_called_sold_out() -> None:
    reserved = describe_outcome(PurchaseState.SOLD_OUT, may_buy_again=False, phase=SalePhase.ALL_HELD)
    sold = describe_outcome(PurchaseState.SOLD_OUT, may_buy_again=False, phase=SalePhase.SOLD_OUT)
    assert reserved is not None and sold is not None and reserved.headline != sold.headline


@pytest.mark.parametrize("state", PurchaseState)
def test_the_steps_end_where_the_purchase_does(state: PurchaseState) -> None:
    steps = purchase_steps(state)
    assert sum(step.status == "now" for step in steps) == (1 if state in COUNTS_DOWN | {PurchaseState.RESERVED} else 0)
    assert len(steps) == (2 if state in REFUSED else 4)


@pytest.mark.parametrize(
    ("estimate", "texts"),
    [
        (None, ("Your position is not known at the moment.", "not known yet")),
        (Estimate(7, None), ("7 requests are ahead of yours.", "not known yet")),
        (Estimate(0, 2000), ("It is your turn.", "about 2 s")),
    ],
)
def test_a_queued_request_shows_what_is_known_of_its_wait(
    monkeypatch: pytest.MonkeyPatch, estimate: Estimate | None, texts: tuple[str, str]
) -> None:
    """Nothing is known right after a start, and while the broker is unavailable."""
    request_id = uuid4()
    monkeypatch.setattr(from_threads, "fetch_status", lambda *_: PurchaseStatus(request_id, "ann", None))
    monkeypatch.setattr(PurchaseStatus, "estimate", estimate)
    monkeypatch.setattr(sales, "current_views", dict)
    monkeypatch.setattr(attempts, "find_signed_position", lambda *_: "")
    browser = Client(headers={"accept-language": "en"})
    browser.cookies[COOKIE] = tokens.issue_token("ann")
    page = browser.get(f"/p/{request_id}").content.decode()
    assert all(text in page for text in texts)
