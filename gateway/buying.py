"""The verb: buy. What this gateway knows by itself comes along to admission, which gives the reasons in their order."""

from __future__ import annotations

import hashlib
import time
from functools import lru_cache
from typing import NamedTuple
from uuid import UUID

from django.conf import settings

from gateway import metrics, offered, places, sales, tickets
from gateway.admission import Ask, Verdict
from gateway.backlog import Estimate
from gateway.identity import request_id as derive_request_id
from gateway.places import Place, Standing
from gateway.sales import Availability
from gateway.submissions import Wanted, queue_of, turnstile
from gateway.watching import watch
from inventory.events import SaleView
from seckill.problems import Problem
from seckill.streams import traces

PAUSE_S = 2.0
LONGEST_RETRY_S = 60.0

REFUSALS: dict[Verdict, tuple[int, str, str]] = {
    Verdict.OTHER_BODY: (422, "key-reused", "This Idempotency-Key was used for another request."),
    Verdict.NOT_OPEN_YET: (403, "not-open-yet", "The sale has not begun."),
    Verdict.CLOSED: (410, "sale-closed", "The sale is over."),
    Verdict.PAUSED: (503, "sale-paused", "The sale is paused."),
    Verdict.TICKET_MISSING: (403, "ticket-missing", "Send the Purchase-Ticket of POST /api/v1/sales/{id}/ticket."),
    Verdict.TICKET_INVALID: (403, "ticket-invalid", "This ticket was not given to you for this sale."),
    Verdict.TICKET_EXPIRED: (403, "ticket-expired", "Fetch a new ticket: this one's time is over."),
    Verdict.TICKET_SPENT: (409, "ticket-spent", "This ticket was used with another Idempotency-Key."),
    Verdict.TOO_MANY: (429, "too-many-requests", "Slow down."),
    Verdict.SOLD_OUT: (409, "sold-out", "The last unit has been sold."),
    Verdict.BACKLOG: (503, "queue-too-long", "Your turn would come too late: the queue is longer than that."),
    Verdict.NO_QUEUE: (503, "queue-unavailable", "The queue takes nothing just now."),
}


class Accepted(NamedTuple):
    """In the queue: who, where, until when, and how long it may take as far as anybody knows."""

    request_id: UUID
    place: Place
    deadline_ms: int
    estimate: Estimate | None
    signed_place: str


class Call(NamedTuple):
    """What came over HTTP, checked for its form."""

    user_id: str
    key: str
    quantity: int
    ticket: str
    address: str
    traceparent: str | None


def buy(view: SaleView, call: Call) -> Accepted:
    """In the queue once the broker has it; the same key gets the same answer. `Problem` says why not."""
    offered.one()
    began = time.perf_counter()
    try:
        accepted = _buy(view, call)
    except Problem as problem:
        metrics.count(problem.kind, time.perf_counter() - began)
        raise
    metrics.count(metrics.ACCEPTED, time.perf_counter() - began)
    return accepted


def _buy(view: SaleView, call: Call) -> Accepted:
    request_id = derive_request_id(settings.SECRET_KEY, call.user_id, view.id, call.key)
    wait_ms = watch().wait_ms(queue_of(call.user_id))
    ask = _with_ticket(
        Ask(
            request_id, _fingerprint(view.sku, call.quantity), call.user_id, call.address, view.opens_at_ms,
            view.closes_at_ms, _shut(view), full=_full(view, wait_ms),
        ),
        call.ticket, view.id,
    )  # fmt: skip
    wanted = Wanted(ask, view.id, view.sku, call.quantity, traces.continued(call.traceparent, request_id))
    admitted = turnstile().pass_through(wanted)
    if admitted.place is None:
        raise refusal(admitted.verdict, view, admitted.now_ms, wait_ms)
    standing = Standing(call.user_id, admitted.place, admitted.deadline_ms)
    return Accepted(
        request_id, admitted.place, admitted.deadline_ms, watch().estimate(admitted.place),
        places.sealed(request_id, standing),
    )  # fmt: skip


def ticket_for(view: SaleView, user_id: str) -> tuple[str, int]:
    """A ticket and when its time is over; only while the sale is open."""
    now_ms = sales.now_ms()
    if now_ms < view.opens_at_ms:
        raise refusal(Verdict.NOT_OPEN_YET, view, now_ms)
    if now_ms >= view.closes_at_ms:
        raise refusal(Verdict.CLOSED, view, now_ms)
    if shut := _shut(view):
        raise refusal(Verdict(shut), view, now_ms)
    text, ticket = tickets.issue(user_id, view.id, now_ms)
    return text, ticket.expires_at_ms


def refusal(verdict: Verdict, view: SaleView, now_ms: int, wait_ms: int | None = None) -> Problem:
    status, kind, detail = REFUSALS[verdict]
    match verdict:
        case Verdict.NOT_OPEN_YET:
            wait_s = (view.opens_at_ms - now_ms) / 1000
            return Problem(status, kind, detail, retry_after_s=wait_s, opens_at_ms=view.opens_at_ms)
        case Verdict.SOLD_OUT:
            return Problem(status, kind, detail, stock_version=view.stock_version)
        case Verdict.PAUSED:
            return Problem(status, kind, detail, retry_after_s=PAUSE_S)
        case Verdict.TOO_MANY | Verdict.NO_QUEUE:
            return Problem(status, kind, detail, retry_after_s=1)
        case Verdict.BACKLOG:
            wait_ms = wait_ms or 0
            excess_s = wait_ms / 1000 - settings.ENVIRONMENT.purchase_deadline_s
            return Problem(
                status, kind, detail, retry_after_s=min(max(1.0, excess_s), LONGEST_RETRY_S), wait_ms=wait_ms
            )
        case _:
            return Problem(status, kind, detail)


def _shut(view: SaleView) -> str:
    """By the operator's word; the window is for the one clock."""
    return {"open": "", "paused": Verdict.PAUSED.value}.get(view.state, Verdict.CLOSED.value)


def _full(view: SaleView, wait_ms: int | None) -> str:
    """The sold-out mark, the backlog guard, the breaker. Units that are only held may come back: they stop nobody."""
    if sales.availability(view) is Availability.SOLD_OUT:
        return Verdict.SOLD_OUT.value
    if wait_ms is not None and wait_ms > settings.ENVIRONMENT.purchase_deadline_s * 1000:
        return Verdict.BACKLOG.value
    return "" if turnstile().breaker.may_try(time.monotonic()) else Verdict.NO_QUEUE.value


def _with_ticket(ask: Ask, text: str, sale_id: int) -> Ask:
    if not text:
        return ask._replace(ticket=Verdict.TICKET_MISSING.value)
    ticket = tickets.read(text, ask.user_id, sale_id)
    if ticket is None:
        return ask._replace(ticket=Verdict.TICKET_INVALID.value)
    return ask._replace(ticket_number=ticket.number, ticket_expires_at_ms=ticket.expires_at_ms)


@lru_cache(maxsize=1024)
def _fingerprint(sku: str, quantity: int) -> str:
    return hashlib.sha256(f"{sku}:{quantity}".encode()).hexdigest()[:16]
