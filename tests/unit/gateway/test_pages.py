"""What the page says of a sale, at every moment of it."""

from __future__ import annotations

import dataclasses
from uuid import uuid4

import pytest
from django.test import Client

from gateway import following, sales
from gateway.backlog import Estimate
from gateway.following import Followed
from gateway.pages import attempts
from gateway.pages.shop import KINDS, kind
from inventory.events import SaleView
from seckill import tokens
from seckill.pages import COOKIE

SALE = SaleView(1, "Gong", "phone", 9900, 1, 10, 10, 0, 0, 1, "open", 1000, 2000)


@pytest.mark.parametrize(
    ("now_ms", "changed", "said"),
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
def test_the_page_says_what_is(now_ms: int, changed: dict[str, object], said: str) -> None:
    view = dataclasses.replace(SALE, **changed)  # type: ignore[arg-type]
    assert kind(view, now_ms) == said
    assert said in KINDS


@pytest.mark.parametrize(
    ("estimate", "said"),
    [
        (None, ("Your place is not known just now.", "not known yet")),
        (Estimate(7, None), ("7 requests are before yours.", "not known yet")),
        (Estimate(0, 2000), ("It is your turn.", "about 2 s")),
    ],
)
def test_whoever_waits_is_told_what_is_known(
    monkeypatch: pytest.MonkeyPatch, estimate: Estimate | None, said: tuple[str, str]
) -> None:
    """Nothing is, right after a start and while the broker is away."""
    asked = uuid4()
    monkeypatch.setattr(following, "follow", lambda *_: Followed(asked, "ann", None))
    monkeypatch.setattr(Followed, "estimate", estimate)
    monkeypatch.setattr(sales, "views", dict)
    monkeypatch.setattr(attempts, "signed_place", lambda *_: "")
    browser = Client(headers={"accept-language": "en"})
    browser.cookies[COOKIE] = tokens.issue("ann")
    page = browser.get(f"/p/{asked}").content.decode()
    assert all(each in page for each in said)
