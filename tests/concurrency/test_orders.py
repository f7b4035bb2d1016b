"""Orders on a real Postgres: placed once, ended once, whoever is at it at the same time."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from datetime import datetime
from functools import partial
from pathlib import Path
from unittest.mock import patch

import pytest
from django.db import connection, transaction
from django.test.utils import CaptureQueriesContext
from django.utils import timezone
from redis import Redis

from inventory.events import Decision
from orders import cancelling, expiring, paying, rows, tasks
from orders.handlers import Decisions
from orders.lifecycle import State, move
from orders.models import Order, Payment, ReadDecision, Transition
from orders.placing import place
from seckill.streams import statements as in_binary
from seckill.streams.models import OutboxRow
from seckill.streams.records import Batch, Received
from tests.concurrency.orders_cast import (
    Outside,
    attempt,
    decided,
    enveloped,
    events,
    order,
    outside_world,
    overdue,
    state,
)
from tests.concurrency.queues import celery_queues, tasks_in
from tests.services import together, until


@pytest.fixture
def outside(tmp_path: Path) -> Iterator[Outside]:
    with outside_world(tmp_path) as outside:
        yield outside


# ── placing ──────────────────────────────────────────────────────────────────────────────────────


def test_a_decision_read_many_times_at_once_places_one_order() -> None:
    envelope, said = enveloped(decided(quantity=2), offset=9)

    def read() -> int:
        with transaction.atomic():
            return len(place([(envelope, said)]))

    assert Counter(together([read] * 6)) == {1: 1, 0: 5}
    placed = Order.objects.get()
    assert (placed.amount, placed.origin, placed.state) == (200, ["purchase.requests", 0, 9], "PENDING_PAYMENT")
    assert events() == {"OrderPlaced": 1}


@pytest.mark.parametrize("decision", [each for each in Decision if each is not Decision.RESERVED])
def test_a_refusal_places_nothing_and_is_remembered(decision: Decision) -> None:
    with transaction.atomic():
        assert place([enveloped(decided(decision=decision))]) == []
    assert not Order.objects.exists()
    assert ReadDecision.objects.get().decision == decision


def test_a_batch_places_each_request_once_and_tells_of_them_in_the_order_of_arrival() -> None:
    said = [enveloped(decided(f"user-{number}"), offset=number) for number in range(20)]
    batch = [*said[:10], enveloped(decided("loser", Decision.SOLD_OUT)), *said, enveloped(said[3][1])]
    with transaction.atomic():
        assert len(place(batch)) == 20
    assert Order.objects.count() == Transition.objects.count() == 20
    assert list(OutboxRow.objects.order_by("id").values_list("key", flat=True)) == [f"user-{n}" for n in range(20)]
    with transaction.atomic():
        assert place(batch) == []


def test_a_batch_costs_as_many_statements_as_a_single_order() -> None:
    def statements(count: int) -> int:
        batch = [enveloped(decided(f"{count}-{number}")) for number in range(count)]
        with (
            transaction.atomic(),
            CaptureQueriesContext(connection) as by_django,
            patch.object(in_binary, "_run", wraps=in_binary._run) as ours,
        ):
            place(batch)
        return len(by_django) + ours.call_count

    assert statements(100) == statements(1) > 3


def test_a_batch_leaves_one_task_at_the_end_of_its_time_and_that_ends_its_orders(redis: Redis) -> None:
    said = [enveloped(decided(f"user-{number}")) for number in range(3)]
    records = [Received("inventory.decisions", 0, 0, 0, "ann", envelope) for envelope, _ in said]
    with celery_queues() as queues:
        with transaction.atomic():
            Decisions().handle(Batch("cluster", "topic", "inventory.decisions", 0, records))
        until(lambda: tasks_in(queues, "celery"), "the task, which the batch does not wait for")
        [task] = tasks_in(queues, "celery")
    last = Order.objects.latest("pay_before")
    assert datetime.fromisoformat(task["headers"]["eta"]) == last.pay_before
    tasks.expire.apply()
    assert Order.objects.filter(state="PENDING_PAYMENT").count() == 3  # the control: not before their time
    Order.objects.update(pay_before=timezone.now())
    tasks.expire.apply()
    assert Order.objects.filter(state="EXPIRED").count() == 3


# ── the end of an unpaid order ───────────────────────────────────────────────────────────────────


def test_an_overdue_order_ends_and_its_open_attempt_is_void(outside: Outside) -> None:
    placed = order()
    payment = attempt(placed)
    overdue(placed)
    assert expiring.expire_due() == 1
    assert state(placed) is State.EXPIRED
    assert not outside.pays(payment.id)


def test_an_order_whose_time_is_not_over_does_not_end(outside: Outside) -> None:
    early, attempted = order("early"), order("attempted")
    attempt(attempted)
    assert expiring.expire_due() == 0
    assert {state(early), state(attempted)} == {State.PENDING_PAYMENT}


def test_an_overdue_order_that_was_paid_at_the_last_moment_is_paid(outside: Outside) -> None:
    """The callback is late, so the sweep asks, and hears of the money first."""
    placed = order()
    payment = attempt(placed)
    assert outside.pays(payment.id)
    overdue(placed)
    assert expiring.expire_due() == 0
    assert state(placed) is State.PAID
    assert paying.told("cb-1", payment.id, "captured")
    assert events() == {"OrderPlaced": 1, "OrderPaid": 1}


def test_an_order_with_an_attempt_does_not_end_while_the_provider_cannot_be_asked_and_others_do(
    outside: Outside,
) -> None:
    tried, plain = order("tried"), order("plain")
    attempt(tried)
    overdue(tried)
    overdue(plain)
    outside.go_away()
    assert expiring.expire_due() == 1
    assert (state(tried), state(plain)) == (State.PENDING_PAYMENT, State.EXPIRED)


def test_an_order_ends_once_however_many_try_to_end_it(outside: Outside) -> None:
    placed = order()
    overdue(placed)
    works: list[Callable[[], int]] = [expiring.expire_due] * 4 + [partial(cancelling.cancel, placed)] * 2
    assert sum(int(bool(each)) for each in together(works)) == 1
    assert Transition.objects.filter(order=placed).count() == 2
    assert sum(events().values()) == 2


def test_without_looking_where_the_order_is_it_would_end_twice() -> None:
    """The control: the same crowd without the condition, and both of them have ended it."""
    placed = order()

    def end(to: State) -> bool:
        return Order.objects.filter(id=placed.id).update(state=to) == 1

    assert together([partial(end, State.EXPIRED), partial(end, State.CANCELLED)]) == [True, True]


def test_many_sweeps_at_once_end_many_orders_once_each(outside: Outside) -> None:
    for number in range(30):
        placed = order(f"user-{number}")
        if number % 3 == 0:
            attempt(placed)
        overdue(placed)
    assert all(isinstance(each, int) for each in together([expiring.expire_due] * 4))
    expiring.expire_due()
    assert set(Order.objects.values_list("state", flat=True)) == {"EXPIRED"}
    assert events() == {"OrderPlaced": 30, "OrderExpired": 30}


def test_an_attempt_begun_while_the_sweep_looks_is_seen_by_it(
    outside: Outside, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Between choosing an order and locking it an attempt is committed: it must be voided before the order ends."""
    placed = order()
    overdue(placed)
    monkeypatch.setattr(rows, "_DUE", "SELECT id FROM orders_order WHERE state = 'PENDING_PAYMENT' LIMIT %s")
    Payment.objects.create(id=placed.request_id, order=placed, amount=100)
    with transaction.atomic():
        assert rows.lock_due(10) == []


def test_an_attempt_left_open_by_an_order_that_has_ended_is_voided(outside: Outside) -> None:
    placed = order()
    payment = attempt(placed)
    with transaction.atomic():
        assert move(placed.id, State.PENDING_PAYMENT, State.EXPIRED)
    assert expiring.close_leftovers() == 1
    payment.refresh_from_db()
    assert payment.state == "voided"
    assert not outside.pays(payment.id)


# ── cancelling ───────────────────────────────────────────────────────────────────────────────────


def test_cancel_and_pay_at_the_same_instant_end_in_one_of_the_two_and_the_money_agrees(outside: Outside) -> None:
    for number in range(6):
        placed = order(f"user-{number}")
        payment = attempt(placed)

        def bank_pays(payment: Payment = payment) -> bool:
            return outside.pays(payment.id) and paying.told(f"cb-{payment.id}", payment.id, "captured")

        works: list[Callable[[], bool]] = [partial(cancelling.cancel, placed), bank_pays]
        assert set(map(type, together(works))) == {bool}
        payment.refresh_from_db()
        paid = (state(placed), payment.state) == (State.PAID, "captured")
        cancelled = (state(placed), payment.state) in {(State.CANCELLED, "voided"), (State.CANCELLED, "refunding")}
        assert paid != cancelled
