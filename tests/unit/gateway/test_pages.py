"""The pages of the shop: the phase of a sale, the words about a purchase, and a queued request's page."""

from __future__ import annotations

import dataclasses
from typing import Any
from uuid import uuid4

import pytest
from django.test import Client

from gateway import from_threads, redis_clock, sales
from gateway.backlog import Estimate
from gateway.pages import attempts, purchase_page
from gateway.pages.outcome_texts import describe_outcome, purchase_steps
from gateway.pages.sale_phase import SalePhase, sale_phase
from gateway.purchase_status import PurchaseStatus
from inventory.events import ArticleView, SaleView
from seckill.web import tokens
from seckill.web.pages import COOKIE
from seckill.web.problems import Problem
from seckill.web.purchase_states import REFUSED, RETURNED, PurchaseState

SALE = SaleView(1, "Gong", "phone", 9900, 1, 10, 10, 0, 0, 1, "open", 1000, 2000)
WATCH = ArticleView("<b>watch</b>", 4950, 2, 4, 0, 1, 3, 9)
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


@pytest.mark.parametrize(
    ("phone", "watch", "phase"),
    [
        ({}, {}, "open"),
        ({"available": 0, "reserved": 10}, {}, "all_held"),
        ({"available": 0, "sold": 10}, {}, "all_held"),
        ({"available": 0, "sold": 10}, {"reserved": 0, "sold": 4}, "sold_out"),
        ({"available": 0, "sold": 10}, {"available": 4}, "open"),
    ],
)
def test_a_sale_of_several_articles_is_as_open_as_the_best_of_them(
    phone: dict[str, int], watch: dict[str, int], phase: str
) -> None:
    view = dataclasses.replace(SALE, more_articles=(dataclasses.replace(WATCH, **watch),), **phone)  # type: ignore[arg-type]
    assert sale_phase(view, 1500) is SalePhase(phase)
    assert sale_phase(view, 999) is SalePhase.UPCOMING and sale_phase(view, 2000) is SalePhase.CLOSED


def test_the_page_of_a_sale_shows_every_article_with_its_own_stock(monkeypatch: pytest.MonkeyPatch) -> None:
    view = dataclasses.replace(SALE, more_articles=(WATCH,))
    monkeypatch.setattr(sales, "find_sale", lambda sale_id: view)
    monkeypatch.setattr(redis_clock, "now_ms", lambda: 1500)
    page = Client(headers={"accept-language": "en"}).get("/shop/1").content.decode()
    assert page.count("<article") == 2 and "<b>watch</b>" not in page
    first, second = page.split("<article")[1:]
    assert "phone.svg" in first and "¥99.00" in first and 'data-phase="open"' in first
    assert "watch.svg" in second and "¥49.50" in second and 'data-phase="all_held"' in second
    assert "up to 2 units per buyer" in second


@pytest.mark.parametrize(("changed", "button"), [({}, "Sign in to buy"), ({"available": 0, "sold": 10}, "Sold out")])
def test_a_visitor_is_asked_to_sign_in_only_while_there_is_something_to_buy(
    monkeypatch: pytest.MonkeyPatch, changed: dict[str, int], button: str
) -> None:
    monkeypatch.setattr(sales, "find_sale", lambda sale_id: dataclasses.replace(SALE, **changed))  # type: ignore[arg-type]
    monkeypatch.setattr(redis_clock, "now_ms", lambda: 1500)
    page = Client(headers={"accept-language": "en"}).get("/shop/1").content.decode()
    assert page.count("Sign in to buy") == (button == "Sign in to buy")


def test_the_bar_shows_the_part_of_the_expected_wait_that_is_over(
    monkeypatch: pytest.MonkeyPatch, settings: Any
) -> None:
    deadline_ms = settings.ENVIRONMENT.purchase_deadline_s * 1000 + 1_000
    status = PurchaseStatus(uuid4(), "ann", None, None, deadline_ms)
    for estimate, percent in ((None, 0), (Estimate(7, None), 0), (Estimate(7, 3000), 25), (Estimate(0, 0), 100)):
        monkeypatch.setattr(PurchaseStatus, "estimate", estimate)
        assert purchase_page._progress(status, 2_000) == ("1000", percent)


def test_a_page_that_was_refused_for_a_moment_loads_itself_again(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse() -> None:
        raise Problem(503, "sales-unavailable", "", retry_after_s=1)

    monkeypatch.setattr(sales, "list_sales", refuse)
    page = Client(headers={"accept-language": "en"}).get("/").content.decode()
    assert '<meta http-equiv="refresh" content="3">' in page and "tries again in 3 seconds" in page
    missing = Client().get("/nothing").content.decode()
    assert "refresh" not in missing


def test_the_sign_in_page_proposes_no_name() -> None:
    assert 'name="user" value=""' in Client().get("/shop/sign-in").content.decode()
