"""The provider's log beside our payments, both ways, as a running duty: a callback may be lost, a row may be, too.

Page by page behind a mark that is a row. What can be mended is mended (a capture nobody told us of is one; an orphan's
money goes back), what cannot is put down as a discrepancy for an operator. All of it may be done twice: the whole log
can be read again at any time.
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

from orders import paying, refunding
from orders.models import Discrepancy, Payment, ProviderLog
from orders.payments import provider
from orders.payments.matching import Finding, judge
from orders.payments.provider import Movement, Page, ProviderDown
from seckill.audit.trail import acting

log = logging.getLogger(__name__)

LOG = "provider"
BEAT_S = 5.0
PAGE = 200
MOST_PAGES = 5
MOST_ASKED = 20
GRACE = timedelta(seconds=30)
"""So long after a capture that we know of, its line may be missing in the part of the log that we have read."""

WORDS = frozenset({"opened", "captured", "voided", "refunded"})


class Found(NamedTuple):
    """One thing that does not agree, or did not until now."""

    finding: Finding
    payment_id: UUID
    order_id: str
    amount: int


class _Beat:
    """When the duty was done last, in this process."""

    at: float = float("-inf")


def look() -> bool:
    """The duty, when its time has come; True: there is more to read."""
    if time.monotonic() < _Beat.at + BEAT_S:
        return False
    try:
        more = follow(MOST_PAGES)
        if not more:
            ask_for_missing()
    except ProviderDown as fault:
        log.warning("reconciliation waits", extra={"reason": str(fault)})
        more = False
    if not more:
        _Beat.at = time.monotonic()
    return more


def follow(most_pages: int) -> bool:
    """Read on behind the mark, so many pages at most; True: there is more."""
    mark, _ = ProviderLog.objects.get_or_create(name=LOG)
    after = mark.read_to
    for _ in range(most_pages):
        page = provider.movements(after, PAGE)
        if page.last < after:
            log.error("the provider's log is shorter than it was", extra={"last": page.last, "read": after})
            ProviderLog.objects.filter(name=LOG, read_to=after).update(read_to=0, read_at=Now())
            return True
        if not page.movements:
            return False
        with transaction.atomic():
            end = page.movements[-1].number
            if ProviderLog.objects.filter(name=LOG, read_to=after).update(read_to=end, read_at=Now()) != 1:
                return False  # another one reads on
            settle(page.movements, compare(page.movements))
        after = end
    return after < page.last


def all_pages(heard: Callable[[Page], None] = lambda page: None) -> Iterator[Page]:
    """The whole log from its first line; `heard` is told of each page (for a progress bar)."""
    after = 0
    while (page := provider.movements(after, PAGE)).movements:
        yield page
        after = page.movements[-1].number
        heard(page)


def compare(movements: Sequence[Movement]) -> list[Found]:
    """What of these lines does not agree with our payments. Changes nothing."""
    named = {movement.payment_id for movement in movements}
    ours = {
        row[0]: (row[1], row[2]) for row in Payment.objects.filter(id__in=named).values_list("id", "state", "amount")
    }
    known = set(Discrepancy.objects.filter(payment_id__in=named).values_list("payment_id", "kind"))
    found = []
    for line in movements:
        if line.what not in WORDS:
            log.warning("the provider says something new", extra={"what": line.what, "number": line.number})
            continue
        finding = judge(line.what, line.amount, ours.get(line.payment_id))
        if finding is not Finding.AGREES and (line.payment_id, finding.value) not in known:
            found.append(Found(finding, line.payment_id, line.order_id, line.amount))
    return [each for each in found if each.finding is not Finding.ORPHAN_REFUNDED or _is_owed(each, found)]


def _is_owed(refunded: Found, found: Sequence[Found]) -> bool:
    """Of an orphan's refund we only want to hear if we know the orphan, or learn of it in the same page."""
    same = any(each.finding is Finding.ORPHAN and each.payment_id == refunded.payment_id for each in found)
    return (
        same or Discrepancy.objects.filter(payment_id=refunded.payment_id, kind=Finding.ORPHAN, state="owed").exists()
    )


def settle(movements: Sequence[Movement], found: Sequence[Found]) -> None:
    """Inside a transaction: mend what can be mended, put down the rest."""
    captured = [movement.payment_id for movement in movements if movement.what == "captured"]
    Payment.objects.filter(id__in=captured, matched=False).update(matched=True)
    explained = Discrepancy.objects.filter(payment_id__in=captured, kind=Finding.UNKNOWN_THERE, state="open")
    explained.update(state="settled", settled_at=Now())
    for each in found:
        log.warning("found", extra={"finding": each.finding.value, "payment": str(each.payment_id)})
        match each.finding:
            case Finding.CAPTURED_UNHEARD:
                paying.capture(each.payment_id)
            case Finding.REFUNDED_UNHEARD | Finding.ORPHAN_REFUNDED:
                refunding.refunded(each.payment_id)
            case Finding.ORPHAN:
                _put_down(each, "owed")
            case _:
                _put_down(each, "open")


def ask_for_missing(*, dry_run: bool = False) -> list[Found]:
    """The other way round: captures that we know of and whose line has not come. The provider is asked for each; if it
    knows, its log is only behind."""
    missing = list(unmatched()[:MOST_ASKED])
    found = []
    for payment in missing:
        if provider.look_up(payment.id).state not in ("captured", "refunded"):
            each = Found(Finding.UNKNOWN_THERE, payment.id, str(payment.order_id), payment.amount)
            found.append(each)
            if not dry_run:
                _put_down(each, "open")
    return found


def unmatched() -> QuerySet[Payment]:
    known = Discrepancy.objects.filter(payment_id=OuterRef("id"), kind=Finding.UNKNOWN_THERE, state="open")
    old = Payment.objects.filter(captured_at__lt=Now() - GRACE, matched=False)
    return old.exclude(Exists(known)).order_by("captured_at")


def _put_down(found: Found, state: str) -> None:
    Discrepancy.objects.bulk_create(
        [
            Discrepancy(
                payment_id=found.payment_id, kind=found.finding, order_id=found.order_id[:100], amount=found.amount,
                state=state,
            )
        ],
        ignore_conflicts=True,
    )  # fmt: skip


class NotOpen(Exception):
    """There is nothing of that number for an operator to close."""


def close(number: int, *, because: str) -> Discrepancy:
    """An operator has looked at it and has seen to it. It stays as it was found, and is not found again."""
    with acting("reconcile close", f"discrepancy {number}", because=because):
        closed = Discrepancy.objects.filter(id=number, state="open").update(state="settled", settled_at=Now())
        found = Discrepancy.objects.filter(id=number).first()
        if found is None:
            raise NotOpen(f"there is no discrepancy {number}")
        if not closed:
            raise NotOpen(f"discrepancy {number} is {found.state}; only open ones are closed")
    return found
