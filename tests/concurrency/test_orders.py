"""Orders and money on a real Postgres, with the sandbox's provider as the other side."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import replace
from datetime import timedelta
from functools import partial
from pathlib import Path
from uuid import UUID, uuid4

import pytest
from django.conf import settings
from django.db import transaction
from django.utils import timezone

from inventory.events import Decision, PurchaseDecided
from loadtest.sandbox.provider import Provider
from loadtest.sandbox.serving import serve
from orders import cancelling, expiring, paying
from orders.lifecycle import State, move
from orders.models import Order, Payment, Transition
from orders.payments import provider as client
from orders.payments import signature
from orders.placing import order_id_of, place
from seckill.envelope import Origin
from seckill.stack.broker import free_port
from seckill.streams.models import OutboxRow
from tests.services import together


class Outside:
    """The provider as a test sees it: it does nothing by itself until it is told to."""

    def __init__(self, folder: Path) -> None:
        self._provider = Provider(folder, "secret")
        self._provider._mode = "never"
        self._log = folder / "provider.jsonl"
        self.port = free_port()
        self._server = serve(self.port, self._provider.answer)

    def go_away(self) -> None:
        self._server.shutdown()
        self._server.server_close()

    def close(self) -> None:
        self.go_away()
        self._provider.close()

    def pays(self, payment_id: UUID) -> bool:
        """The buyer's bank has paid; False: the payment was voided before."""
        return self._provider._move(str(payment_id), ("open",), "captured")

    def counts(self) -> Counter[str]:
        return Counter(json.loads(line)["what"] for line in self._log.read_text().splitlines())


@pytest.fixture
def outside(tmp_path: Path) -> Iterator[Outside]:
    outside = Outside(tmp_path)
    before = settings.ENVIRONMENT
    settings.ENVIRONMENT = replace(before, provider_url=f"http://127.0.0.1:{outside.port}")
    yield outside
    settings.ENVIRONMENT = before
    outside.close()


def order(user: str = "ann") -> Order:
    decided = PurchaseDecided(uuid4(), user, 1, "phone", 1, 100, Decision.RESERVED, 2, 0)
    with transaction.atomic():
        assert place(decided.envelope(Origin("purchase.requests", 0, 7)), decided)
    return Order.objects.get(id=order_id_of(decided.request_id))


def attempt(placed: Order) -> Payment:
    payment = paying.begin(placed)
    assert payment is not None
    return payment


def overdue(placed: Order) -> None:
    Order.objects.filter(id=placed.id).update(pay_before=timezone.now() - timedelta(seconds=1))


def state(placed: Order) -> State:
    placed.refresh_from_db()
    return State(placed.state)


def events() -> Counter[str]:
    return Counter(json.loads(bytes(row.value))["type"] for row in OutboxRow.objects.all())


# ── placing ──────────────────────────────────────────────────────────────────────────────────────


def test_a_decision_read_many_times_at_once_places_one_order() -> None:
    decided = PurchaseDecided(uuid4(), "ann", 1, "phone", 2, 100, Decision.RESERVED, 2, 0)
    envelope = decided.envelope(Origin("purchase.requests", 3, 9))

    def read() -> bool:
        with transaction.atomic():
            return place(envelope, decided)

    assert Counter(together([read] * 6)) == {True: 1, False: 5}
    placed = Order.objects.get()
    assert (placed.amount, placed.origin, placed.state) == (200, ["purchase.requests", 3, 9], "PENDING_PAYMENT")
    assert events() == {"OrderPlaced": 1}


@pytest.mark.parametrize("decision", [each for each in Decision if each is not Decision.RESERVED])
def test_a_refusal_places_nothing(decision: Decision) -> None:
    decided = PurchaseDecided(uuid4(), "ann", 1, "phone", 1, 100, decision, 2, 0)
    with transaction.atomic():
        assert not place(decided.envelope(Origin("purchase.requests", 0, 0)), decided)
    assert not Order.objects.exists()


# ── paying ───────────────────────────────────────────────────────────────────────────────────────


def test_a_callback_five_times_at_once_pays_once(outside: Outside) -> None:
    placed = order()
    payment = attempt(placed)
    assert together([partial(paying.told, "cb-1", payment.id, "captured")] * 5) == [True] * 5
    assert state(placed) is State.PAID
    assert events() == {"OrderPlaced": 1, "OrderPaid": 1}
    assert Transition.objects.filter(order=placed).count() == 2


def test_asking_to_pay_twice_is_one_attempt(outside: Outside) -> None:
    placed = order()
    assert attempt(placed).id == attempt(placed).id
    assert outside.counts() == {"opened": 1}


def test_a_callback_of_an_unknown_payment_changes_nothing(outside: Outside) -> None:
    assert not paying.told("cb-1", uuid4(), "captured")


def test_a_provider_that_is_away_is_no_refusal(outside: Outside) -> None:
    placed = order()
    outside.go_away()
    with pytest.raises(client.ProviderDown):
        paying.begin(placed)
    assert state(placed) is State.PENDING_PAYMENT


# ── the end of an unpaid order ───────────────────────────────────────────────────────────────────


def test_an_overdue_order_ends_and_its_open_attempt_is_void(outside: Outside) -> None:
    placed = order()
    payment = attempt(placed)
    overdue(placed)
    assert expiring.expire_due() == 1
    assert state(placed) is State.EXPIRED
    assert not outside.pays(payment.id)


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


def test_an_order_does_not_end_while_the_provider_cannot_be_asked(outside: Outside) -> None:
    placed = order()
    attempt(placed)
    overdue(placed)
    outside.go_away()
    assert expiring.expire_due() == 0
    assert state(placed) is State.PENDING_PAYMENT


def test_a_payment_after_the_end_is_refunded_once_and_the_order_stays_ended(outside: Outside) -> None:
    """Voiding was lost on its way, so the bank pays an order that has ended."""
    placed = order()
    payment = attempt(placed)
    with transaction.atomic():
        assert move(placed.id, State.PENDING_PAYMENT, State.EXPIRED)
    assert outside.pays(payment.id)
    assert paying.told("cb-1", payment.id, "captured")
    assert together([paying.refund_due] * 3) != []
    paying.refund_due()
    assert state(placed) is State.EXPIRED
    assert outside.counts() == {"opened": 1, "captured": 1, "refunded": 1}
    assert events() == {"OrderPlaced": 1, "OrderExpired": 1, "LatePaymentRefunded": 1}


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


def test_an_order_ends_once_however_many_try_to_end_it(outside: Outside) -> None:
    placed = order()
    overdue(placed)
    ends = together([partial(expiring.expire, placed.id)] * 4 + [partial(cancelling.cancel, placed)] * 2)
    assert Counter(ends)[True] == 1
    assert Transition.objects.filter(order=placed).count() == 2


# ── signatures ───────────────────────────────────────────────────────────────────────────────────


def test_a_callback_is_genuine_only_with_this_secret_this_body_and_this_time() -> None:
    header = signature.sign("secret", b"body", 1000)
    assert signature.is_genuine("secret", b"body", header, 1000 + 300)
    assert not signature.is_genuine("secret", b"body", header, 1000 + 301)
    assert not signature.is_genuine("secret", b"other", header, 1000)
    assert not signature.is_genuine("other", b"body", header, 1000)
    for damaged in ("", "t=,v1=", "v1=abc", header.replace("t=", "t=x"), header[:-1]):
        assert not signature.is_genuine("secret", b"body", damaged, 1000)
