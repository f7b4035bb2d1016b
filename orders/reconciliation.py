"""Compare the provider's log with our payments, in both directions, because a callback or a row may be lost.

The log is read page by page; a row stores how far. What can be repaired is repaired (an unrecorded capture is recorded,
an orphan's money is refunded), and the rest becomes a discrepancy for an operator. Every step may be repeated, so the
whole log can be read again at any time.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Iterator, Sequence
from datetime import timedelta
from typing import NamedTuple
from uuid import UUID

from django.db import transaction
from django.db.models import Exists, OuterRef, QuerySet
from django.db.models.functions import Now
from django.utils.text import format_lazy
from django.utils.translation import gettext_lazy as _

from orders import payment_attempts, refunds
from orders.models import Discrepancy, Payment, ProviderLog
from orders.payments import provider
from orders.payments.matching import Finding, match_movement
from orders.payments.provider import Movement, MovementPage, ProviderDown
from orders.states import DiscrepancyState
from seckill.audit.trail import audited

log = logging.getLogger(__name__)

PROVIDER_LOG = "provider"
INTERVAL_S = 5.0
PAGE_MOVEMENTS_MAX = 200
PAGES_PER_PASS_MAX = 5
LOOKUPS_PER_PASS_MAX = 20
GRACE = timedelta(seconds=30)
"""A recorded capture may be missing from the provider's log for this long before it counts as a discrepancy."""

MOVEMENT_KINDS = frozenset({"opened", "captured", "voided", "refunded"})


class FoundDiscrepancy(NamedTuple):
    finding: Finding
    payment_id: UUID
    order_id: str
    amount: int


class Reconciler:
    """Runs the reconciliation once per interval, although the sweep calls it more often."""

    def __init__(self) -> None:
        self._last_run_at = float("-inf")

    def run_if_due(self) -> bool:
        """True: more pages are waiting, so run again at once."""
        if time.monotonic() < self._last_run_at + INTERVAL_S:
            return False
        try:
            has_more = reconcile_pages(PAGES_PER_PASS_MAX)
            if not has_more:
                check_missing_captures()
        except ProviderDown as fault:
            log.warning("reconciliation postponed", extra={"reason": str(fault)})
            has_more = False
        if not has_more:
            self._last_run_at = time.monotonic()
        return has_more


def reconcile_pages(limit: int) -> bool:
    """Compare up to `limit` pages that were not read before. True: there are more."""
    mark, _ = ProviderLog.objects.get_or_create(name=PROVIDER_LOG)
    after = mark.read_to
    page = MovementPage([], 0)
    for _ in range(limit):
        page = provider.list_movements(after, PAGE_MOVEMENTS_MAX)
        if page.last < after:
            log.error("the provider's log got shorter", extra={"last": page.last, "read": after})
            ProviderLog.objects.filter(name=PROVIDER_LOG, read_to=after).update(read_to=0, read_at=Now())
            return True
        if not page.movements:
            return False
        with transaction.atomic():
            end = page.movements[-1].number
            unread = ProviderLog.objects.filter(name=PROVIDER_LOG, read_to=after)
            if unread.update(read_to=end, read_at=Now()) != 1:
                return False  # another process has read this page
            apply_findings(page.movements, find_discrepancies(page.movements))
        after = end
    return after < page.last


def read_all_pages(on_page: Callable[[MovementPage], None] = lambda page: None) -> Iterator[MovementPage]:
    """The whole log from its first line. `on_page` is called for each page, for a progress bar."""
    after = 0
    while (page := provider.list_movements(after, PAGE_MOVEMENTS_MAX)).movements:
        yield page
        after = page.movements[-1].number
        on_page(page)


def find_discrepancies(movements: Sequence[Movement]) -> list[FoundDiscrepancy]:
    """The lines that disagree with our payments and are not recorded yet. Changes nothing."""
    ids = {movement.payment_id for movement in movements}
    payments = {
        row[0]: (row[1], row[2]) for row in Payment.objects.filter(id__in=ids).values_list("id", "state", "amount")
    }
    known = set(Discrepancy.objects.filter(payment_id__in=ids).values_list("payment_id", "kind"))
    found = []
    for line in movements:
        if line.kind not in MOVEMENT_KINDS:
            log.warning("unknown kind of movement", extra={"kind": line.kind, "number": line.number})
            continue
        finding = match_movement(line.kind, line.amount, payments.get(line.payment_id))
        if finding is not Finding.AGREES and (line.payment_id, finding.value) not in known:
            found.append(FoundDiscrepancy(finding, line.payment_id, line.order_id, line.amount))
    return [each for each in found if each.finding is not Finding.ORPHAN_REFUNDED or _is_orphan_known(each, found)]


def _is_orphan_known(refunded: FoundDiscrepancy, found: Sequence[FoundDiscrepancy]) -> bool:
    """An orphan's refund matters only if its capture is recorded, or is found in the same page."""
    is_in_page = any(each.finding is Finding.ORPHAN and each.payment_id == refunded.payment_id for each in found)
    owed = Discrepancy.objects.filter(payment_id=refunded.payment_id, kind=Finding.ORPHAN, state=DiscrepancyState.OWED)
    return is_in_page or owed.exists()


def apply_findings(movements: Sequence[Movement], found: Sequence[FoundDiscrepancy]) -> None:
    """Inside a transaction: repair what can be repaired and record the rest."""
    captured = [movement.payment_id for movement in movements if movement.kind == "captured"]
    Payment.objects.filter(id__in=captured, matched=False).update(matched=True)
    explained = Discrepancy.objects.filter(
        payment_id__in=captured, kind=Finding.UNKNOWN_THERE, state=DiscrepancyState.OPEN
    )
    explained.update(state=DiscrepancyState.SETTLED, settled_at=Now())
    for each in found:
        log.warning("discrepancy found", extra={"finding": each.finding.value, "payment": str(each.payment_id)})
        match each.finding:
            case Finding.CAPTURED_UNHEARD:
                payment_attempts.record_capture(each.payment_id)
            case Finding.REFUNDED_UNHEARD | Finding.ORPHAN_REFUNDED:
                refunds.record_refund(each.payment_id)
            case Finding.ORPHAN:
                _insert_discrepancy(each, DiscrepancyState.OWED)
            case _:
                _insert_discrepancy(each, DiscrepancyState.OPEN)


def check_missing_captures(*, dry_run: bool = False) -> list[FoundDiscrepancy]:
    """The other direction: captures recorded here whose line is missing from the log. The provider is asked for each
    payment; if it knows the capture, only its log is late."""
    missing = list(unmatched_captures()[:LOOKUPS_PER_PASS_MAX])
    found = []
    for payment in missing:
        if provider.get_payment(payment.id).state not in ("captured", "refunded"):
            each = FoundDiscrepancy(Finding.UNKNOWN_THERE, payment.id, str(payment.order_id), payment.amount)
            found.append(each)
            if not dry_run:
                _insert_discrepancy(each, DiscrepancyState.OPEN)
    return found


def unmatched_captures() -> QuerySet[Payment]:
    known = Discrepancy.objects.filter(
        payment_id=OuterRef("id"), kind=Finding.UNKNOWN_THERE, state=DiscrepancyState.OPEN
    )
    old = Payment.objects.filter(captured_at__lt=Now() - GRACE, matched=False)
    return old.exclude(Exists(known)).order_by("captured_at")


def _insert_discrepancy(found: FoundDiscrepancy, state: DiscrepancyState) -> None:
    row = Discrepancy(
        payment_id=found.payment_id, kind=found.finding, order_id=found.order_id[:100], amount=found.amount, state=state
    )
    Discrepancy.objects.bulk_create([row], ignore_conflicts=True)


class DiscrepancyNotOpen(Exception):
    """The discrepancy does not exist, or is not waiting for an operator."""


def close_discrepancy(number: int, *, because: str) -> Discrepancy:
    """An operator has dealt with it. The row stays as a record, so the same discrepancy is not found again."""
    with audited("reconcile close", f"discrepancy {number}", because=because):
        opened = Discrepancy.objects.filter(id=number, state=DiscrepancyState.OPEN)
        is_closed = opened.update(state=DiscrepancyState.SETTLED, settled_at=Now()) == 1
        found = Discrepancy.objects.filter(id=number).first()
        if found is None:
            raise DiscrepancyNotOpen(format_lazy(_("discrepancy {id} does not exist"), id=number))
        if not is_closed:
            text = _("discrepancy {id} is {state}; only open ones can be closed")
            raise DiscrepancyNotOpen(format_lazy(text, id=number, state=found.state))
    return found
