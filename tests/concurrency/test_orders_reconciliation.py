"""Differences between the payment provider's log and ours: resolved once, or kept for an operator."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import timedelta
from functools import partial
from pathlib import Path
from uuid import uuid4

import pytest
from django.db.models.functions import Now

from orders import reconciliation, refunds
from orders.models import Discrepancy, Payment, ProviderLog
from orders.payments import provider as client
from orders.payments.matching import Finding
from orders.states import OrderState
from seckill.audit.models import AuditEntry
from tests.concurrency.orders_cast import (
    SandboxProvider,
    place_order,
    place_paid_order,
    running_sandbox,
    start_attempt,
    state_of,
)
from tests.services import together


@pytest.fixture
def sandbox(tmp_path: Path) -> Iterator[SandboxProvider]:
    with running_sandbox(tmp_path) as sandbox:
        yield sandbox


def reconcile_all() -> None:
    while reconciliation.reconcile_pages(1):
        pass


def test_a_capture_without_a_callback_pays_the_order(sandbox: SandboxProvider) -> None:
    placed = place_order()
    payment = start_attempt(placed)
    assert sandbox.capture(payment.id)
    assert state_of(placed) is OrderState.PENDING_PAYMENT  # the control: without reconciliation it stays unpaid
    reconcile_all()
    assert state_of(placed) is OrderState.PAID


def test_an_orphan_that_three_processes_find_is_refunded_once(sandbox: SandboxProvider) -> None:
    orphan = uuid4()
    sandbox.open_payment(orphan)
    assert sandbox.capture(orphan)
    assert all(isinstance(each, bool | None) for each in together([partial(reconciliation.reconcile_pages, 5)] * 3))
    assert Discrepancy.objects.get().state == "owed"
    together([refunds.send_due_refunds] * 3)
    reconcile_all()
    assert Discrepancy.objects.get().state == "settled"
    assert sandbox.counts() == {"opened": 1, "captured": 1, "refunded": 1}
    for page in reconciliation.read_all_pages():
        assert reconciliation.find_discrepancies(page.movements) == []


def test_a_dry_run_finds_discrepancies_and_changes_nothing(sandbox: SandboxProvider) -> None:
    orphan, placed = uuid4(), place_order()
    payment = start_attempt(placed)
    sandbox.open_payment(orphan)
    assert sandbox.capture(orphan) and sandbox.capture(payment.id)
    found = [
        each.finding
        for page in reconciliation.read_all_pages()
        for each in reconciliation.find_discrepancies(page.movements)
    ]
    assert sorted(found) == sorted([Finding.CAPTURED_UNHEARD, Finding.ORPHAN])
    assert not Discrepancy.objects.exists() and not ProviderLog.objects.exists()
    assert state_of(placed) is OrderState.PENDING_PAYMENT


def test_a_capture_unknown_to_the_provider_becomes_one_discrepancy(sandbox: SandboxProvider) -> None:
    placed = place_order()
    ghost = Payment.objects.create(
        id=uuid4(), order=placed, amount=100, state="captured", captured_at=Now() - timedelta(minutes=5)
    )
    known, _ = place_paid_order(sandbox, "bob")
    reconcile_all()
    assert [each.payment_id for each in reconciliation.check_missing_captures()] == [ghost.id]
    assert reconciliation.check_missing_captures() == []
    assert Discrepancy.objects.get().kind == Finding.UNKNOWN_THERE
    assert Payment.objects.get(order=known).matched


def test_a_refund_that_nobody_requested_waits_for_an_operator(sandbox: SandboxProvider) -> None:
    placed, payment = place_paid_order(sandbox)
    client.refund_payment(payment.id)
    reconcile_all()
    assert state_of(placed) is OrderState.PAID
    assert [(row.kind, row.state) for row in Discrepancy.objects.all()] == [(Finding.REFUNDED_THERE, "open")]


def test_a_closed_discrepancy_is_not_found_again(sandbox: SandboxProvider) -> None:
    placed, payment = place_paid_order(sandbox)
    client.refund_payment(payment.id)
    reconcile_all()
    [row] = Discrepancy.objects.all()
    assert reconciliation.close_discrepancy(row.pk, because="refunded by phone").payment_id == payment.id
    with pytest.raises(reconciliation.DiscrepancyNotOpen, match="is settled"):
        reconciliation.close_discrepancy(row.pk, because="again")
    with pytest.raises(reconciliation.DiscrepancyNotOpen, match="does not exist"):
        reconciliation.close_discrepancy(row.pk + 1, because="a typing error")
    entries = AuditEntry.objects.filter(verb="reconcile close")
    audited = [(entry.arguments["because"], entry.result) for entry in entries]
    assert audited[0] == ("refunded by phone", "done")
    assert [result.partition(":")[0] for _, result in audited[1:]] == ["DiscrepancyNotOpen", "DiscrepancyNotOpen"]
    for page in reconciliation.read_all_pages():
        assert not [
            each for each in reconciliation.find_discrepancies(page.movements) if each.finding == Finding.REFUNDED_THERE
        ]
    assert state_of(placed) is OrderState.PAID


def test_each_page_is_read_once_and_a_shorter_log_from_its_start(sandbox: SandboxProvider) -> None:
    for _ in range(3):
        sandbox.open_payment(uuid4())
    reconcile_all()
    mark = ProviderLog.objects.get()
    assert mark.read_to == 3
    assert not reconciliation.reconcile_pages(1)
    ProviderLog.objects.update(read_to=99)
    assert reconciliation.reconcile_pages(1)
    assert ProviderLog.objects.get().read_to == 0
