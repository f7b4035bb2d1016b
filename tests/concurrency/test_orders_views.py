"""HTTP API of orders: buyers reach only their own orders, and only genuine, confirmed callbacks have an effect."""

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

from orders import payment_attempts, refunds
from orders.models import Callback, Order
from orders.payments import provider, signature
from orders.states import OrderState
from seckill.web import tokens
from tests.concurrency.orders_cast import (
    SandboxProvider,
    place_order,
    place_paid_order,
    running_sandbox,
    start_attempt,
    state_of,
)


@pytest.fixture
def sandbox(tmp_path: Path) -> Iterator[SandboxProvider]:
    with running_sandbox(tmp_path) as sandbox:
        yield sandbox


def call(user: str, path: str, method: str = "POST") -> tuple[int, dict[str, Any]]:
    answer = Client().generic(
        method, f"/api/v1/orders{path}", headers={"Authorization": f"Bearer {tokens.issue_token(user)}"}
    )
    return answer.status_code, json.loads(answer.content)


def send_callback(body: bytes, secret: str | None = None, at_s: int | None = None) -> int:
    secret = settings.ENVIRONMENT.provider_secret if secret is None else secret
    header = signature.sign(secret, body, int(time.time()) if at_s is None else at_s)
    answer = Client().post(
        "/api/v1/payments/callback", body, content_type="application/json", headers={signature.HEADER: header}
    )
    return int(answer.status_code)


def test_only_its_buyer_can_see_pay_and_cancel_an_order(sandbox: SandboxProvider) -> None:
    placed = place_order("ann")
    for path, method in (("", "GET"), ("/pay", "POST"), ("/cancel", "POST")):
        assert call("bob", f"/{placed.id}{path}", method)[0] == 404
    assert call("bob", "", "GET") == (200, {"orders": []})
    assert call("ann", f"/{placed.id}", "GET")[1]["state"] == "PENDING_PAYMENT"
    assert call("ann", f"/{placed.id}/pay")[0] == 202
    assert call("ann", f"/{placed.id}/cancel")[1]["state"] == "CANCELLED"
    assert call("ann", f"/{placed.id}/pay")[0] == call("ann", f"/{placed.id}/cancel")[0] == 409


def test_pages_of_orders_contain_each_order_once(sandbox: SandboxProvider, monkeypatch: pytest.MonkeyPatch) -> None:
    """Several orders of one batch have the same time."""
    monkeypatch.setattr("orders.buyer_actions.PAGE_ORDERS_MAX", 3)
    made = [place_order("ann") for _ in range(8)]
    Order.objects.filter(id__in=[each.id for each in made[2:7]]).update(placed_at=made[0].placed_at)
    seen, after, pages = [], "", 0
    while True:
        listed = call("ann", f"?after={after}" if after else "", "GET")[1]
        seen += [each["id"] for each in listed["orders"]]
        pages += 1
        after = listed.get("next", "")
        if not after:
            break
    assert (pages, len(seen)) == (3, 8)
    assert set(seen) == {str(each.id) for each in made}
    assert call("bob", f"?after={listed_next('ann')}", "GET")[1] == {"orders": []}


def listed_next(user: str) -> str:
    return str(call(user, "", "GET")[1]["next"])


@pytest.mark.parametrize("after", ["x", "1", "-1.x", "9" * 30 + ".x", "1.00000000-0000-0000-0000-00000000000x", "%00"])
def test_an_invalid_cursor_is_a_bad_request(after: str) -> None:
    assert call("ann", f"?after={after}", "GET")[0] == 400


def test_a_paid_order_cannot_be_cancelled(sandbox: SandboxProvider) -> None:
    placed, _ = place_paid_order(sandbox)
    assert call("ann", f"/{placed.id}/cancel")[0] == 409
    assert state_of(placed) is OrderState.PAID


def test_without_the_provider_pay_and_cancel_answer_503_and_change_nothing(sandbox: SandboxProvider) -> None:
    placed = place_order("ann")
    start_attempt(placed)
    sandbox.stop()
    assert call("ann", f"/{placed.id}/pay")[0] == call("ann", f"/{placed.id}/cancel")[0] == 503
    assert state_of(placed) is OrderState.PENDING_PAYMENT


def test_repeats_of_a_genuine_callback_are_counted(sandbox: SandboxProvider) -> None:
    placed = place_order("ann")
    payment = start_attempt(placed)
    assert sandbox.capture(payment.id)
    body = json.dumps({"id": "cb-1", "payment": str(payment.id), "kind": "captured"}).encode()
    assert [send_callback(body) for _ in range(3)] == [200, 200, 200]
    assert state_of(placed) is OrderState.PAID
    assert Callback.objects.get().received == 3


def test_a_callback_with_a_wrong_or_old_signature_changes_nothing(sandbox: SandboxProvider) -> None:
    placed = place_order("ann")
    payment = start_attempt(placed)
    body = json.dumps({"id": "cb-1", "payment": str(payment.id), "kind": "captured"}).encode()
    assert send_callback(body, secret="guessed") == send_callback(body, at_s=int(time.time()) - 3600) == 401
    assert state_of(placed) is OrderState.PENDING_PAYMENT
    assert payment_attempts.handle_callback("cb-1", payment.id, "captured")  # the control
    assert state_of(placed) is OrderState.PAID


def test_a_signed_callback_that_the_provider_does_not_confirm_changes_nothing(sandbox: SandboxProvider) -> None:
    """The signing key was stolen."""
    placed = place_order("ann")
    payment = start_attempt(placed)
    captured = json.dumps({"id": "cb-1", "payment": str(payment.id), "kind": "captured"}).encode()
    assert send_callback(captured) == 401
    assert (state_of(placed), Callback.objects.count()) == (OrderState.PENDING_PAYMENT, 0)
    assert sandbox.capture(payment.id)
    assert send_callback(captured) == 200
    assert state_of(placed) is OrderState.PAID
    refunds.refund_order(placed.id, return_units=False, because="a test")
    refunded = json.dumps({"id": "cb-2", "payment": str(payment.id), "kind": "refunded"}).encode()
    assert send_callback(refunded) == 401
    payment.refresh_from_db()
    assert payment.state == "refunding", "the money is still owed"


def test_a_callback_answers_503_until_the_provider_can_confirm_it(
    sandbox: SandboxProvider,
) -> None:
    placed, other = place_order("ann"), place_order("bob")
    payment, unsettled = start_attempt(placed), start_attempt(other)
    assert sandbox.capture(payment.id) and sandbox.capture(unsettled.id)
    bodies = [
        json.dumps({"id": f"cb-{each.id}", "payment": str(each.id), "kind": "captured"}).encode()
        for each in (payment, unsettled)
    ]
    assert send_callback(bodies[0]) == 200
    sandbox.stop()
    assert send_callback(bodies[0]) == 200, "it changes nothing, so the provider is not asked"
    assert send_callback(bodies[1]) == 503
    assert state_of(other) is OrderState.PENDING_PAYMENT


def test_the_bulkhead_limits_how_many_threads_wait_for_the_provider(
    sandbox: SandboxProvider, monkeypatch: pytest.MonkeyPatch
) -> None:
    placed = place_order("ann")
    start_attempt(placed)
    monkeypatch.setattr(provider, "_permits", threading.BoundedSemaphore(1))
    with provider._permits:
        assert call("ann", f"/{placed.id}/pay")[0] == call("ann", f"/{placed.id}/cancel")[0] == 503
    assert call("ann", f"/{placed.id}/pay")[0] == 202


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
def test_an_unreadable_callback_is_refused(body: bytes, status: int) -> None:
    assert send_callback(body) == status
