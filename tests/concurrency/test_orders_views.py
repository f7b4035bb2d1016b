"""HTTP of orders: one's own only, and what the provider says only if it is the provider who says it."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from uuid import UUID

import pytest
from django.conf import settings
from django.test import Client

from orders import paying, refunding
from orders.lifecycle import State
from orders.models import Callback, Order
from orders.payments import provider, signature
from seckill import tokens
from tests.concurrency.orders_cast import Outside, attempt, order, outside_world, paid, state


@pytest.fixture
def outside(tmp_path: Path) -> Iterator[Outside]:
    with outside_world(tmp_path) as outside:
        yield outside


def asked(user: str, path: str, method: str = "POST") -> tuple[int, dict[str, Any]]:
    answer = Client().generic(
        method, f"/api/v1/orders{path}", headers={"Authorization": f"Bearer {tokens.issue(user)}"}
    )
    return answer.status_code, json.loads(answer.content)


def told(body: bytes, secret: str | None = None, at_s: int | None = None) -> int:
    secret = settings.ENVIRONMENT.provider_secret if secret is None else secret
    header = signature.sign(secret, body, int(time.time()) if at_s is None else at_s)
    answer = Client().post(
        "/api/v1/payments/callback", body, content_type="application/json", headers={signature.HEADER: header}
    )
    return int(answer.status_code)


def test_an_order_is_seen_paid_and_cancelled_by_its_buyer_only(outside: Outside) -> None:
    placed = order("ann")
    for path, method in (("", "GET"), ("/pay", "POST"), ("/cancel", "POST")):
        assert asked("bob", f"/{placed.id}{path}", method)[0] == 404
    assert asked("bob", "", "GET") == (200, {"orders": []})
    assert asked("ann", f"/{placed.id}", "GET")[1]["state"] == "PENDING_PAYMENT"
    assert asked("ann", f"/{placed.id}/pay")[0] == 202
    assert asked("ann", f"/{placed.id}/cancel")[1]["state"] == "CANCELLED"
    assert asked("ann", f"/{placed.id}/pay")[0] == asked("ann", f"/{placed.id}/cancel")[0] == 409


def test_orders_are_listed_page_by_page_and_none_twice(outside: Outside, monkeypatch: pytest.MonkeyPatch) -> None:
    """Several were placed by one batch, at the same time."""
    monkeypatch.setattr("orders.asking.PAGE", 3)
    made = [order("ann") for _ in range(8)]
    Order.objects.filter(id__in=[each.id for each in made[2:7]]).update(placed_at=made[0].placed_at)
    seen, after, pages = [], "", 0
    while True:
        listed = asked("ann", f"?after={after}" if after else "", "GET")[1]
        seen += [each["id"] for each in listed["orders"]]
        pages += 1
        after = listed.get("next", "")
        if not after:
            break
    assert (pages, len(seen)) == (3, 8)
    assert set(seen) == {str(each.id) for each in made}
    assert asked("bob", f"?after={listed_next('ann')}", "GET")[1] == {"orders": []}


def listed_next(user: str) -> str:
    return str(asked(user, "", "GET")[1]["next"])


@pytest.mark.parametrize("after", ["x", "1", "-1.x", "9" * 30 + ".x", "1.00000000-0000-0000-0000-00000000000x", "%00"])
def test_a_page_that_is_none_is_a_bad_request(after: str) -> None:
    assert asked("ann", f"?after={after}", "GET")[0] == 400


def test_what_is_paid_is_not_cancelled(outside: Outside) -> None:
    placed, _ = paid(outside)
    assert asked("ann", f"/{placed.id}/cancel")[0] == 409
    assert state(placed) is State.PAID


def test_a_provider_that_is_away_is_a_503_and_changes_nothing(outside: Outside) -> None:
    placed = order("ann")
    attempt(placed)
    outside.go_away()
    assert asked("ann", f"/{placed.id}/pay")[0] == asked("ann", f"/{placed.id}/cancel")[0] == 503
    assert state(placed) is State.PENDING_PAYMENT


def test_a_genuine_callback_is_heard_and_counted(outside: Outside) -> None:
    placed = order("ann")
    payment = attempt(placed)
    assert outside.pays(payment.id)
    body = json.dumps({"id": "cb-1", "payment": str(payment.id), "kind": "captured"}).encode()
    assert [told(body) for _ in range(3)] == [200, 200, 200]
    assert state(placed) is State.PAID
    assert Callback.objects.get().received == 3


def test_a_callback_that_is_not_the_providers_changes_nothing(outside: Outside) -> None:
    placed = order("ann")
    payment = attempt(placed)
    body = json.dumps({"id": "cb-1", "payment": str(payment.id), "kind": "captured"}).encode()
    assert told(body, secret="guessed") == told(body, at_s=int(time.time()) - 3600) == 401
    assert state(placed) is State.PENDING_PAYMENT
    assert paying.told("cb-1", payment.id, "captured")  # the control
    assert state(placed) is State.PAID


def test_a_signed_callback_that_the_provider_does_not_confirm_changes_nothing(outside: Outside) -> None:
    """As by a stolen key."""
    placed = order("ann")
    payment = attempt(placed)
    captured = json.dumps({"id": "cb-1", "payment": str(payment.id), "kind": "captured"}).encode()
    assert told(captured) == 401
    assert (state(placed), Callback.objects.count()) == (State.PENDING_PAYMENT, 0)
    assert outside.pays(payment.id)
    assert told(captured) == 200
    assert state(placed) is State.PAID
    refunding.refund(placed.id, return_units=False, because="a test")
    refunded = json.dumps({"id": "cb-2", "payment": str(payment.id), "kind": "refunded"}).encode()
    assert told(refunded) == 401
    payment.refresh_from_db()
    assert payment.state == "refunding", "the money is still owed"


def test_a_callback_waits_for_a_provider_that_can_be_asked_and_is_not_asked_about_again(outside: Outside) -> None:
    placed, other = order("ann"), order("bob")
    payment, unsettled = attempt(placed), attempt(other)
    assert outside.pays(payment.id) and outside.pays(unsettled.id)
    bodies = [
        json.dumps({"id": f"cb-{each.id}", "payment": str(each.id), "kind": "captured"}).encode()
        for each in (payment, unsettled)
    ]
    assert told(bodies[0]) == 200
    outside.go_away()
    assert told(bodies[0]) == 200, "it changes nothing, so nobody is asked"
    assert told(bodies[1]) == 503
    assert state(other) is State.PENDING_PAYMENT


def test_the_provider_keeps_so_many_threads_waiting_at_most(outside: Outside, monkeypatch: pytest.MonkeyPatch) -> None:
    placed = order("ann")
    attempt(placed)
    monkeypatch.setattr(provider, "_permits", threading.BoundedSemaphore(1))
    with provider._permits:
        assert asked("ann", f"/{placed.id}/pay")[0] == asked("ann", f"/{placed.id}/cancel")[0] == 503
    assert asked("ann", f"/{placed.id}/pay")[0] == 202


@pytest.mark.parametrize(
    ("body", "status"),
    [
        (b"", 400),
        (b"[]", 400),
        (b"no JSON", 400),
        (b'{"id": "x", "payment": "no uuid", "kind": "captured"}', 400),
        (json.dumps({"id": "x", "payment": str(UUID(int=1)), "kind": "captured"}).encode(), 404),
    ],
)
def test_a_callback_that_makes_no_sense_is_refused(body: bytes, status: int) -> None:
    assert told(body) == status
