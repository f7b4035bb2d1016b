"""Payments on a real Postgres with the sandbox's provider: captured once, refunded once, reconciled."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from datetime import timedelta
from functools import partial
from pathlib import Path
from uuid import uuid4

import pytest
from django.db import IntegrityError, connection, transaction
from django.utils import timezone

from orders import payment_attempts, refunds
from orders.lifecycle import move_order
from orders.models import Callback, Discrepancy, Payment, Transition
from orders.payments import provider as client
from orders.payments.matching import Finding
from orders.states import OrderState
from seckill.audit.models import AuditEntry
from tests.concurrency.orders_cast import (
    SandboxProvider,
    place_order,
    place_paid_order,
    published_events,
    running_sandbox,
    start_attempt,
    state_of,
)
from tests.services import together


@pytest.fixture
def sandbox(tmp_path: Path) -> Iterator[SandboxProvider]:
    with running_sandbox(tmp_path) as sandbox:
        yield sandbox


# ── paying ───────────────────────────────────────────────────────────────────────────────────────


def test_five_copies_of_a_callback_at_once_pay_once(sandbox: SandboxProvider) -> None:
    placed = place_order()
    payment = start_attempt(placed)
    assert together([partial(payment_attempts.handle_callback, "cb-1", payment.id, "captured")] * 5) == [True] * 5
    assert state_of(placed) is OrderState.PAID
    assert published_events() == {"OrderPlaced": 1, "OrderPaid": 1}
    assert Transition.objects.filter(order=placed).count() == 2


def test_starting_to_pay_twice_makes_one_attempt(sandbox: SandboxProvider) -> None:
    placed = place_order()
    assert start_attempt(placed).id == start_attempt(placed).id
    assert sandbox.counts() == {"opened": 1}


def test_an_attempt_voided_only_at_the_provider_is_followed_by_another(sandbox: SandboxProvider) -> None:
    """Our process died after the provider voided the attempt and before the row was updated."""
    placed = place_order()
    first = start_attempt(placed)
    client.void_payment(first.id)
    second = start_attempt(placed)
    assert second.id != first.id
    assert sandbox.counts() == {"opened": 2, "voided": 1}


def test_a_callback_of_an_unknown_payment_changes_nothing(sandbox: SandboxProvider) -> None:
    assert not payment_attempts.handle_callback("cb-1", uuid4(), "captured")


def test_an_order_can_still_be_paid_after_the_provider_was_down(sandbox: SandboxProvider) -> None:
    placed = place_order()
    sandbox.stop()
    with pytest.raises(client.ProviderDown):
        payment_attempts.start_attempt(placed)
    assert state_of(placed) is OrderState.PENDING_PAYMENT


def test_a_connection_cut_after_the_effect_is_retried_and_has_one_effect(sandbox: SandboxProvider) -> None:
    placed = place_order()
    sandbox.behave(answers="cut", times=2)
    assert start_attempt(placed).state == "open"
    assert sandbox.counts() == {"opened": 1}


def test_a_provider_that_keeps_failing_is_not_called_for_a_while(sandbox: SandboxProvider) -> None:
    sandbox.behave(answers="fail")
    for _ in range(3):
        with pytest.raises(client.ProviderDown):
            client.get_payment(uuid4())
    sandbox.behave(answers="ok")
    with pytest.raises(client.ProviderDown, match="not sent"):
        client.get_payment(uuid4())
    client.breaker.record_success()  # the control: with the breaker closed it is called
    assert client.get_payment(uuid4()).state == "unknown"


def test_a_call_to_a_slow_provider_ends_at_its_deadline(
    sandbox: SandboxProvider, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(client, "TRY_SECONDS_MAX", 0.1)
    monkeypatch.setattr(client, "CALL_SECONDS_MAX", 0.3)
    sandbox.behave(answers="slow", delay_s=1)
    with pytest.raises(client.ProviderDown):
        client.get_payment(uuid4())


def test_the_database_refuses_a_second_payment_that_counts(sandbox: SandboxProvider) -> None:
    placed, _ = place_paid_order(sandbox)
    with pytest.raises(IntegrityError), transaction.atomic():
        Payment.objects.create(id=uuid4(), order=placed, amount=100, state="captured")


# ── late payments ───────────────────────────────────────────────────────────────────────────────────


def test_a_payment_after_the_order_expired_is_refunded_once(sandbox: SandboxProvider) -> None:
    """The void was lost, so the buyer pays an order that has expired."""
    placed = place_order()
    payment = start_attempt(placed)
    with transaction.atomic():
        assert move_order(placed.id, OrderState.PENDING_PAYMENT, OrderState.EXPIRED)
    assert sandbox.capture(payment.id)
    assert payment_attempts.handle_callback("cb-1", payment.id, "captured")
    assert all(isinstance(done, int) for done in together([refunds.send_due_refunds] * 3))
    refunds.send_due_refunds()
    assert state_of(placed) is OrderState.EXPIRED
    assert sandbox.counts() == {"opened": 1, "captured": 1, "refunded": 1}
    assert published_events() == {"OrderPlaced": 1, "OrderExpired": 1, "LatePaymentRefunded": 1}


def test_callbacks_in_the_wrong_order_change_nothing_twice(sandbox: SandboxProvider) -> None:
    placed, payment = place_paid_order(sandbox)
    refunds.refund_order(placed.id, return_units=False)
    assert refunds.send_refund(payment.id)
    for number, kind in enumerate(["refunded", "captured", "refunded", "captured"]):
        assert payment_attempts.handle_callback(f"again-{number}", payment.id, kind)
    payment.refresh_from_db()
    assert (state_of(placed), payment.state) == (OrderState.REFUNDED, "refunded")
    assert sandbox.counts()["refunded"] == 1


# ── an operator's refund ─────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("return_units", [False, True])
def test_four_refunds_at_once_refund_once_and_record_whether_units_return(
    sandbox: SandboxProvider, return_units: bool
) -> None:
    placed, _ = place_paid_order(sandbox)
    results = together([partial(refunds.refund_order, placed.id, return_units=return_units, actor="eve")] * 4)
    assert Counter(map(type, results)) == {refunds.Refund: 1, refunds.RefundRejected: 3}
    assert all(isinstance(done, int) for done in together([refunds.send_due_refunds] * 3))
    assert state_of(placed) is OrderState.REFUNDED
    assert sandbox.counts()["refunded"] == 1
    assert published_events() == {"OrderPlaced": 1, "OrderPaid": 1, "OrderRefunded": 1}
    rows = AuditEntry.objects.filter(verb="refund", target=str(placed.id))
    assert Counter(row.result == "done" for row in rows) == {True: 1, False: 3}
    assert {(row.actor, row.arguments["return_units"]) for row in rows} == {("eve", return_units)}


def test_only_a_paid_order_can_be_refunded(sandbox: SandboxProvider) -> None:
    placed = place_order()
    with pytest.raises(refunds.RefundRejected, match="PENDING_PAYMENT"):
        refunds.refund_order(placed.id, return_units=False)
    with pytest.raises(refunds.RefundRejected, match="does not exist"):
        refunds.refund_order(uuid4(), return_units=False)
    assert state_of(placed) is OrderState.PENDING_PAYMENT


def test_a_refund_is_owed_until_the_provider_is_back(sandbox: SandboxProvider) -> None:
    placed, payment = place_paid_order(sandbox)
    sandbox.behave(answers="fail")
    refunds.refund_order(placed.id, return_units=False)
    assert refunds.send_due_refunds() == 0
    sandbox.behave(answers="ok")
    client.breaker.record_success()
    assert refunds.send_due_refunds() == 1
    payment.refresh_from_db()
    assert payment.state == "refunded"


# ── states and clocks ────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    "statement",
    [
        "UPDATE orders_order SET state = 'LOST'",
        "UPDATE orders_transition SET after = 'LOST'",
        "UPDATE orders_payment SET state = 'gone'",
        "UPDATE orders_discrepancy SET state = 'ignored'",
    ],
)
def test_the_database_refuses_a_state_that_does_not_exist(sandbox: SandboxProvider, statement: str) -> None:
    start_attempt(place_order())
    Discrepancy.objects.create(payment_id=uuid4(), kind=Finding.ORPHAN, amount=1, state="owed")
    with pytest.raises(IntegrityError), transaction.atomic(), connection.cursor() as cursor:
        cursor.execute(statement)


def test_a_worker_whose_clock_is_a_minute_ahead_records_the_databases_times(
    sandbox: SandboxProvider, monkeypatch: pytest.MonkeyPatch
) -> None:
    now = timezone.now
    monkeypatch.setattr(timezone, "now", lambda: now() + timedelta(minutes=1))
    placed, payment = place_paid_order(sandbox)
    refunds.refund_order(placed.id, return_units=False)
    assert refunds.send_refund(payment.id)
    payment.refresh_from_db()
    assert payment.captured_at is not None and payment.refunded_at is not None
    callback = Callback.objects.get()
    times = [payment.opened_at, payment.captured_at, callback.first_at, payment.refunded_at]
    assert max(times) < now() + timedelta(seconds=30)
