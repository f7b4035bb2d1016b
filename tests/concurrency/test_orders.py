"""Orders on a real Postgres: each is placed once and ends once, even if several processes try at the same time."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from datetime import datetime
from functools import partial
from pathlib import Path
from unittest.mock import patch

import pytest
from django.db import connection, transaction
from django.db.models.functions import Now
from django.test.utils import CaptureQueriesContext
from redis import Redis

from inventory.events import Decision
from orders import batch_sql, cancellation, expiry, locks, payment_attempts, tasks
from orders.handlers import DecisionHandler
from orders.lifecycle import move_order
from orders.models import Order, Payment, ReadDecision, Transition
from orders.placement import place_orders
from orders.states import OrderState
from seckill.messaging import binary_sql as in_binary
from seckill.messaging.models import OutboxRow
from seckill.messaging.records import Batch, ReceivedRecord
from tests.concurrency.orders_cast import (
    SandboxProvider,
    decided,
    make_overdue,
    place_order,
    published_events,
    running_sandbox,
    start_attempt,
    state_of,
    with_envelope,
)
from tests.concurrency.queues import celery_queues, tasks_in
from tests.services import together, until


@pytest.fixture
def sandbox(tmp_path: Path) -> Iterator[SandboxProvider]:
    with running_sandbox(tmp_path) as sandbox:
        yield sandbox


# ── placing ──────────────────────────────────────────────────────────────────────────────────────


def test_a_decision_handled_six_times_at_once_places_one_order() -> None:
    envelope, decision = with_envelope(decided(quantity=2), offset=9)

    def read() -> int:
        with transaction.atomic():
            return len(place_orders([(envelope, decision)]))

    assert Counter(together([read] * 6)) == {1: 1, 0: 5}
    placed = Order.objects.get()
    assert (placed.amount, placed.origin, placed.state) == (200, ["purchase.requests", 0, 9], "PENDING_PAYMENT")
    assert published_events() == {"OrderPlaced": 1}


@pytest.mark.parametrize("decision", [each for each in Decision if each is not Decision.RESERVED])
def test_a_rejection_places_no_order_and_is_recorded_as_read(decision: Decision) -> None:
    with transaction.atomic():
        assert place_orders([with_envelope(decided(decision=decision))]) == []
    assert not Order.objects.exists()
    assert ReadDecision.objects.get().decision == decision


def test_a_batch_places_each_request_once_and_publishes_in_order_of_arrival() -> None:
    decisions = [with_envelope(decided(f"user-{number}"), offset=number) for number in range(20)]
    batch = [
        *decisions[:10],
        with_envelope(decided("loser", Decision.SOLD_OUT)),
        *decisions,
        with_envelope(decisions[3][1]),
    ]
    with transaction.atomic():
        assert len(place_orders(batch)) == 20
    assert Order.objects.count() == Transition.objects.count() == 20
    assert list(OutboxRow.objects.order_by("id").values_list("key", flat=True)) == [f"user-{n}" for n in range(20)]
    with transaction.atomic():
        assert place_orders(batch) == []


def test_a_batch_of_a_hundred_orders_needs_as_many_statements_as_one_order() -> None:
    def statements(count: int) -> int:
        batch = [with_envelope(decided(f"{count}-{number}")) for number in range(count)]
        with (
            transaction.atomic(),
            CaptureQueriesContext(connection) as by_django,
            patch.object(in_binary, "_run", wraps=in_binary._run) as ours,
        ):
            place_orders(batch)
        return len(by_django) + ours.call_count

    assert statements(100) == statements(1) > 3


def test_a_batch_schedules_one_task_that_expires_its_orders(redis: Redis) -> None:
    decisions = [with_envelope(decided(f"user-{number}")) for number in range(3)]
    records = [ReceivedRecord("inventory.decisions", 0, 0, 0, "ann", envelope) for envelope, _ in decisions]
    with celery_queues() as queues:
        with transaction.atomic():
            DecisionHandler().handle(Batch("cluster", "topic", "inventory.decisions", 0, records))
        until(lambda: tasks_in(queues, "celery"), "the task, which another thread enqueues")
        [task] = tasks_in(queues, "celery")
    last = Order.objects.latest("pay_before")
    assert datetime.fromisoformat(task["headers"]["eta"]) == last.pay_before
    tasks.expire_due.apply()
    assert Order.objects.filter(state="PENDING_PAYMENT").count() == 3  # the control: not before their deadline
    Order.objects.update(pay_before=Now())
    tasks.expire_due.apply()
    assert Order.objects.filter(state="EXPIRED").count() == 3


# ── the end of an unpaid order ───────────────────────────────────────────────────────────────────


def test_an_overdue_order_expires_and_its_open_attempt_is_voided(sandbox: SandboxProvider) -> None:
    placed = place_order()
    payment = start_attempt(placed)
    make_overdue(placed)
    assert expiry.expire_due_orders() == 1
    assert state_of(placed) is OrderState.EXPIRED
    assert not sandbox.capture(payment.id)


def test_an_order_before_its_deadline_does_not_expire(sandbox: SandboxProvider) -> None:
    early, attempted = place_order("early"), place_order("attempted")
    start_attempt(attempted)
    assert expiry.expire_due_orders() == 0
    assert {state_of(early), state_of(attempted)} == {OrderState.PENDING_PAYMENT}


def test_an_order_paid_at_the_last_moment_is_paid_although_its_callback_is_late(sandbox: SandboxProvider) -> None:
    """The sweep asks the provider before it expires the order, so it learns of the payment first."""
    placed = place_order()
    payment = start_attempt(placed)
    assert sandbox.capture(payment.id)
    make_overdue(placed)
    assert expiry.expire_due_orders() == 0
    assert state_of(placed) is OrderState.PAID
    assert payment_attempts.handle_callback("cb-1", payment.id, "captured")
    assert published_events() == {"OrderPlaced": 1, "OrderPaid": 1}


def test_without_the_provider_only_orders_with_an_open_attempt_wait(
    sandbox: SandboxProvider,
) -> None:
    tried, plain = place_order("tried"), place_order("plain")
    start_attempt(tried)
    make_overdue(tried)
    make_overdue(plain)
    sandbox.stop()
    assert expiry.expire_due_orders() == 1
    assert (state_of(tried), state_of(plain)) == (OrderState.PENDING_PAYMENT, OrderState.EXPIRED)


def test_four_sweeps_and_two_cancellations_at_once_end_an_order_once(sandbox: SandboxProvider) -> None:
    placed = place_order()
    make_overdue(placed)
    works: list[Callable[[], int]] = [expiry.expire_due_orders] * 4 + [
        partial(cancellation.cancel_unpaid_order, placed)
    ] * 2
    assert sum(int(bool(each)) for each in together(works)) == 1
    assert Transition.objects.filter(order=placed).count() == 2
    assert sum(published_events().values()) == 2


def test_without_the_condition_on_its_state_an_order_ends_twice(monkeypatch: pytest.MonkeyPatch) -> None:
    """The control: the same UPDATE without its condition."""
    placed = place_order()
    guarded = batch_sql._UPDATE_ORDER_STATES
    monkeypatch.setattr(batch_sql, "_UPDATE_ORDER_STATES", guarded.replace("AND state = %b", "AND %b <> ''"))

    def end(state: OrderState) -> bool:
        with transaction.atomic():
            return move_order(placed.id, OrderState.PENDING_PAYMENT, state) is not None

    assert together([partial(end, OrderState.EXPIRED), partial(end, OrderState.CANCELLED)]) == [True, True]
    assert published_events() == {"OrderPlaced": 1, "OrderExpired": 1, "OrderCancelled": 1}


def test_four_sweeps_at_once_expire_each_of_thirty_orders_once(sandbox: SandboxProvider) -> None:
    for number in range(30):
        placed = place_order(f"user-{number}")
        if number % 3 == 0:
            start_attempt(placed)
        make_overdue(placed)
    assert all(isinstance(each, int) for each in together([expiry.expire_due_orders] * 4))
    expiry.expire_due_orders()
    assert set(Order.objects.values_list("state", flat=True)) == {"EXPIRED"}
    assert published_events() == {"OrderPlaced": 30, "OrderExpired": 30}


def test_an_attempt_opened_between_selection_and_lock_keeps_the_order(
    sandbox: SandboxProvider, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The attempt must be voided before the order expires, so the second statement has to see it."""
    placed = place_order()
    make_overdue(placed)
    monkeypatch.setattr(
        locks, "_LOCK_DUE_ORDERS", "SELECT id FROM orders_order WHERE state = 'PENDING_PAYMENT' LIMIT %s"
    )
    Payment.objects.create(id=placed.request_id, order=placed, amount=100)
    with transaction.atomic():
        assert locks.lock_due_orders(10) == []


def test_an_open_attempt_of_an_ended_order_is_voided(sandbox: SandboxProvider) -> None:
    placed = place_order()
    payment = start_attempt(placed)
    with transaction.atomic():
        assert move_order(placed.id, OrderState.PENDING_PAYMENT, OrderState.EXPIRED)
    assert expiry.void_leftover_attempts() == 1
    payment.refresh_from_db()
    assert payment.state == "voided"
    assert not sandbox.capture(payment.id)


# ── cancelling ───────────────────────────────────────────────────────────────────────────────────


def test_cancel_and_pay_at_once_end_in_one_state_that_matches_the_money(
    sandbox: SandboxProvider,
) -> None:
    for number in range(6):
        placed = place_order(f"user-{number}")
        payment = start_attempt(placed)

        def bank_pays(payment: Payment = payment) -> bool:
            return sandbox.capture(payment.id) and payment_attempts.handle_callback(
                f"cb-{payment.id}", payment.id, "captured"
            )

        works: list[Callable[[], bool]] = [partial(cancellation.cancel_unpaid_order, placed), bank_pays]
        assert set(map(type, together(works))) == {bool}
        payment.refresh_from_db()
        paid = (state_of(placed), payment.state) == (OrderState.PAID, "captured")
        cancelled = (state_of(placed), payment.state) in {
            (OrderState.CANCELLED, "voided"),
            (OrderState.CANCELLED, "refunding"),
        }
        assert paid != cancelled
