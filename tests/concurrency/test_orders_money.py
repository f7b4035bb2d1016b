"""Money on a real Postgres, with the sandbox's provider as the other side: paid once, given back once, compared."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from datetime import timedelta
from functools import partial
from pathlib import Path
from uuid import uuid4

import pytest
from django.db import IntegrityError, transaction
from django.utils import timezone

from orders import paying, reconciling, refunding
from orders.lifecycle import State, move
from orders.models import Discrepancy, Payment, ProviderLog, Transition
from orders.payments import provider as client
from orders.payments.matching import Finding
from seckill.audit.models import Entry
from tests.concurrency.orders_cast import Outside, attempt, events, order, outside_world, paid, state
from tests.services import together


@pytest.fixture
def outside(tmp_path: Path) -> Iterator[Outside]:
    with outside_world(tmp_path) as outside:
        yield outside


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


def test_an_attempt_that_ended_there_unheard_is_followed_by_another(outside: Outside) -> None:
    """Voided at the provider, and our process died before it could note that."""
    placed = order()
    first = attempt(placed)
    client.void(first.id)
    second = attempt(placed)
    assert second.id != first.id
    assert outside.counts() == {"opened": 2, "voided": 1}


def test_a_callback_of_an_unknown_payment_changes_nothing(outside: Outside) -> None:
    assert not paying.told("cb-1", uuid4(), "captured")


def test_a_provider_that_is_away_is_no_refusal(outside: Outside) -> None:
    placed = order()
    outside.go_away()
    with pytest.raises(client.ProviderDown):
        paying.begin(placed)
    assert state(placed) is State.PENDING_PAYMENT


def test_a_connection_cut_after_the_effect_is_asked_again_and_has_it_once(outside: Outside) -> None:
    placed = order()
    outside.told(answers="cut", times=2)
    assert attempt(placed).state == "open"
    assert outside.counts() == {"opened": 1}


def test_a_provider_that_keeps_failing_is_left_alone_for_a_while(outside: Outside) -> None:
    outside.told(answers="fail")
    for _ in range(3):
        with pytest.raises(client.ProviderDown):
            client.look_up(uuid4())
    outside.told(answers="ok")
    with pytest.raises(client.ProviderDown, match="not asked"):
        client.look_up(uuid4())
    client.breaker.succeeded()  # the control: with the breaker closed it answers
    assert client.look_up(uuid4()).state == "unknown"


def test_a_provider_that_is_too_slow_is_not_waited_for(outside: Outside, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(client, "TRY_S", 0.1)
    monkeypatch.setattr(client, "DEADLINE_S", 0.3)
    outside.told(answers="slow", delay_s=1)
    with pytest.raises(client.ProviderDown):
        client.look_up(uuid4())


def test_an_order_cannot_be_paid_twice_even_where_the_code_forgets_to_look(outside: Outside) -> None:
    placed, _ = paid(outside)
    with pytest.raises(IntegrityError), transaction.atomic():
        Payment.objects.create(id=uuid4(), order=placed, amount=100, state="captured")


# ── late money ───────────────────────────────────────────────────────────────────────────────────


def test_a_payment_after_the_end_is_refunded_once_and_the_order_stays_ended(outside: Outside) -> None:
    """Voiding was lost on its way, so the bank pays an order that has ended."""
    placed = order()
    payment = attempt(placed)
    with transaction.atomic():
        assert move(placed.id, State.PENDING_PAYMENT, State.EXPIRED)
    assert outside.pays(payment.id)
    assert paying.told("cb-1", payment.id, "captured")
    assert all(isinstance(done, int) for done in together([refunding.refund_due] * 3))
    refunding.refund_due()
    assert state(placed) is State.EXPIRED
    assert outside.counts() == {"opened": 1, "captured": 1, "refunded": 1}
    assert events() == {"OrderPlaced": 1, "OrderExpired": 1, "LatePaymentRefunded": 1}


def test_a_refund_told_before_its_capture_changes_nothing_twice(outside: Outside) -> None:
    """Out of order: the provider's callbacks overtake each other."""
    placed, payment = paid(outside)
    refunding.refund(placed.id, return_units=False)
    assert refunding.give_back(payment.id)
    for number, kind in enumerate(["refunded", "captured", "refunded", "captured"]):
        assert paying.told(f"again-{number}", payment.id, kind)
    payment.refresh_from_db()
    assert (state(placed), payment.state) == (State.REFUNDED, "refunded")
    assert outside.counts()["refunded"] == 1


# ── an operator's refund ─────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("return_units", [False, True])
def test_a_refund_gives_the_money_back_once_and_says_whether_the_units_come_back(
    outside: Outside, return_units: bool
) -> None:
    placed, _ = paid(outside)
    results = together([partial(refunding.refund, placed.id, return_units=return_units, actor="eve")] * 4)
    assert Counter(map(type, results)) == {refunding.Refund: 1, refunding.Refused: 3}
    assert all(isinstance(done, int) for done in together([refunding.refund_due] * 3))
    assert state(placed) is State.REFUNDED
    assert outside.counts()["refunded"] == 1
    assert events() == {"OrderPlaced": 1, "OrderPaid": 1, "OrderRefunded": 1}
    rows = Entry.objects.filter(verb="refund", target=str(placed.id))
    assert Counter(row.result == "done" for row in rows) == {True: 1, False: 3}
    assert {(row.actor, row.arguments["return_units"]) for row in rows} == {("eve", return_units)}


def test_what_was_not_paid_cannot_be_refunded(outside: Outside) -> None:
    placed = order()
    with pytest.raises(refunding.Refused, match="PENDING_PAYMENT"):
        refunding.refund(placed.id, return_units=False)
    with pytest.raises(refunding.Refused, match="there is no order"):
        refunding.refund(uuid4(), return_units=False)
    assert state(placed) is State.PENDING_PAYMENT


def test_a_refund_is_owed_until_the_provider_can_be_asked(outside: Outside) -> None:
    placed, payment = paid(outside)
    outside.told(answers="fail")
    refunding.refund(placed.id, return_units=False)
    assert refunding.refund_due() == 0
    outside.told(answers="ok")
    client.breaker.succeeded()
    assert refunding.refund_due() == 1
    payment.refresh_from_db()
    assert payment.state == "refunded"


# ── reconciliation ───────────────────────────────────────────────────────────────────────────────


def follow() -> None:
    while reconciling.follow(1):
        pass


def test_a_capture_that_nobody_told_us_of_pays_the_order(outside: Outside) -> None:
    placed = order()
    payment = attempt(placed)
    assert outside.pays(payment.id)
    assert state(placed) is State.PENDING_PAYMENT  # the control: without reconciliation it would wait on
    follow()
    assert state(placed) is State.PAID


def test_an_orphan_is_refunded_once_whoever_finds_it(outside: Outside) -> None:
    orphan = uuid4()
    outside.opens(orphan)
    assert outside.pays(orphan)
    assert all(isinstance(each, bool | None) for each in together([partial(reconciling.follow, 5)] * 3))
    assert Discrepancy.objects.get().state == "owed"
    together([refunding.refund_due] * 3)
    follow()
    assert Discrepancy.objects.get().state == "settled"
    assert outside.counts() == {"opened": 1, "captured": 1, "refunded": 1}
    for page in reconciling.all_pages():
        assert reconciling.compare(page.movements) == []


def test_comparing_changes_nothing(outside: Outside) -> None:
    """The dry run."""
    orphan, placed = uuid4(), order()
    payment = attempt(placed)
    outside.opens(orphan)
    assert outside.pays(orphan) and outside.pays(payment.id)
    found = [each.finding for page in reconciling.all_pages() for each in reconciling.compare(page.movements)]
    assert sorted(found) == sorted([Finding.CAPTURED_UNHEARD, Finding.ORPHAN])
    assert not Discrepancy.objects.exists() and not ProviderLog.objects.exists()
    assert state(placed) is State.PENDING_PAYMENT


def test_what_we_say_was_captured_and_the_provider_does_not_know_is_put_down_once(outside: Outside) -> None:
    placed = order()
    ghost = Payment.objects.create(
        id=uuid4(), order=placed, amount=100, state="captured", captured_at=timezone.now() - timedelta(minutes=5)
    )
    known, _ = paid(outside, "bob")
    follow()
    assert [each.payment_id for each in reconciling.ask_for_missing()] == [ghost.id]
    assert reconciling.ask_for_missing() == []
    assert Discrepancy.objects.get().kind == Finding.UNKNOWN_THERE
    assert Payment.objects.get(order=known).matched


def test_money_that_went_back_without_our_asking_is_for_an_operator_to_look_at(outside: Outside) -> None:
    placed, payment = paid(outside)
    client.refund(payment.id)
    follow()
    assert state(placed) is State.PAID
    assert [(row.kind, row.state) for row in Discrepancy.objects.all()] == [(Finding.REFUNDED_THERE, "open")]


def test_what_an_operator_has_seen_to_is_closed_once_and_not_found_again(outside: Outside) -> None:
    placed, payment = paid(outside)
    client.refund(payment.id)
    follow()
    [row] = Discrepancy.objects.all()
    assert reconciling.close(row.pk, because="refunded by phone").payment_id == payment.id
    with pytest.raises(reconciling.NotOpen, match="is settled"):
        reconciling.close(row.pk, because="again")
    with pytest.raises(reconciling.NotOpen, match="there is no discrepancy"):
        reconciling.close(row.pk + 1, because="a slip of the pen")
    told = [(entry.arguments["because"], entry.result) for entry in Entry.objects.filter(verb="reconcile close")]
    assert told[0] == ("refunded by phone", "done")
    assert [result.partition(":")[0] for _, result in told[1:]] == ["NotOpen", "NotOpen"]
    for page in reconciling.all_pages():
        assert not [each for each in reconciling.compare(page.movements) if each.finding == Finding.REFUNDED_THERE]
    assert state(placed) is State.PAID


def test_pages_are_read_once_each_and_a_shorter_log_is_read_anew(outside: Outside) -> None:
    for _ in range(3):
        outside.opens(uuid4())
    follow()
    mark = ProviderLog.objects.get()
    assert mark.read_to == 3
    assert not reconciling.follow(1)
    ProviderLog.objects.update(read_to=99)
    assert reconciling.follow(1)
    assert ProviderLog.objects.get().read_to == 0
