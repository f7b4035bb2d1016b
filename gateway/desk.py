"""What is done for a call in the round: it is read, it gets what this gateway knows by itself, and its answer is made.

One thread does it for all who wait: fifty times in a row it costs a third of what it costs on fifty threads that take
turns. What comes in and goes out are plain values, so that it may be done in another process (gateway/clerk.py).
"""

from __future__ import annotations

import json
import re
from typing import Any, NamedTuple

from django.conf import settings

from gateway import accepted_response, sales, signed_positions, tickets
from gateway.admission import AdmissionRequest, AdmissionResult, Verdict
from gateway.admission_fallback import body_fingerprint
from gateway.backlog_monitor import shared_monitor
from gateway.events import UNITS_MAX
from gateway.identity import derive_request_id as derive_request_id
from gateway.sale_json import Availability, availability
from gateway.signed_positions import SignedPosition
from gateway.submissions import GiveBack, Turnstile, Wanted, queue_of
from inventory.events import SaleView
from seckill.monitoring import traces
from seckill.resilience.circuit_breaker import Permit
from seckill.web import tokens
from seckill.web.client_address import identify_client
from seckill.web.problems import Problem

KEY = re.compile(r"[\x21-\x7e]{1,64}")
TICKET_CHARACTERS_MAX = 400
UNPAID_MAX = 1000
"""Of one address in one sale, however large: admission reads each of them when it corrects their sum."""
PAUSE_S = 2.0
RETRY_SECONDS_MAX = 60.0
LAST_MS = 10**16
UNPAID_RETRY_S = 5.0

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
    Verdict.TOO_MANY_TRIES: (
        429,
        "too-many-tries",
        "This user, or this address, has made too many requests in this sale.",
    ),
    Verdict.TOO_MANY_UNPAID: (429, "too-many-unpaid", "Your address holds too many units that are not paid."),
    Verdict.SOLD_OUT: (409, "sold-out", "The last unit has been sold."),
    Verdict.BACKLOG: (503, "queue-too-long", "Your turn would come too late: the queue is longer than that."),
    Verdict.NO_QUEUE: (503, "queue-unavailable", "The queue takes nothing just now."),
    Verdict.NO_SUCH_SALE: (404, "no-such-sale", "There is no such sale."),
    Verdict.UNKNOWN: (503, "queue-unknown", "Your request may be in the queue. Send it again, under the same key."),
}


class Call(NamedTuple):
    """What came over HTTP, as it came. `user_id` is that of a page's session; where it is empty the token says it."""

    sale_id: int
    user_id: str
    authorization: str
    key: str
    ticket: str
    peer: str
    forwarded: str
    traceparent: str | None
    body: bytes


class Accepted(NamedTuple):
    """In the queue: what is answered, and what a page needs of it."""

    request_id: str
    signed_place: str
    poll_after_ms: int
    content: bytes


class Desk:
    """A turnstile, and what this gateway says to those who come to it."""

    def __init__(self) -> None:
        self.turnstile: Turnstile[Call, Accepted] = Turnstile(self._wanted, self._accepted)

    def _wanted(self, call: Call) -> Wanted:
        user_id = call.user_id or tokens.user_of_bearer(call.authorization)
        if not KEY.fullmatch(call.key):
            raise Problem(400, "bad-idempotency-key", "Send an Idempotency-Key of 1 to 64 printable characters.")
        view = _view(call.sale_id)
        quantity = body(call.body).get("quantity", 1)
        if type(quantity) is not int or not 0 < quantity <= UNITS_MAX:
            raise Problem(400, "bad-quantity", "`quantity` is a whole number from 1 on.")
        request_id = derive_request_id(settings.SECRET_KEY, user_id, view.id, call.key)
        missing, number, expires_at_ms = _ticket(call.ticket[:TICKET_CHARACTERS_MAX], user_id, view.id)
        client = identify_client({"REMOTE_ADDR": call.peer, "HTTP_X_FORWARDED_FOR": call.forwarded})
        full, probed = self._full(view, user_id)
        ask = AdmissionRequest(
            request_id, body_fingerprint(view.sku, quantity) if view.sku else "", user_id, client.address,
            view.opens_at_ms, view.closes_at_ms, shut(view), missing, number, expires_at_ms, full, view.id, quantity,
            0 if client.is_proxy else unpaid_max(view),
        )  # fmt: skip
        return Wanted(ask, view.id, view.sku, quantity, traces.continued(call.traceparent, request_id), probed)

    def _full(self, view: SaleView, user_id: str) -> tuple[str, GiveBack | None]:
        """The sold-out mark, the backlog guard, the breaker. Units that are only held may come back: they stop
        nobody. A request that is the probe of guard or breaker gives it back unless it is really sent."""
        if availability(view) is Availability.SOLD_OUT:
            return Verdict.SOLD_OUT.value, None
        guard = shared_monitor().permit(queue_of(user_id))
        if guard is Permit.NO:
            return Verdict.BACKLOG.value, None
        breaker = self.turnstile.permit(user_id)
        if breaker is Permit.NO:
            if guard is Permit.PROBE:
                shared_monitor().backlog.give_back()
            return Verdict.NO_QUEUE.value, None

        def give_back() -> None:
            if guard is Permit.PROBE:
                shared_monitor().backlog.give_back()
            if breaker is Permit.PROBE:
                self.turnstile.give_back(user_id)

        return "", give_back if Permit.PROBE in (guard, breaker) else None

    def _accepted(self, wanted: Wanted, admitted: AdmissionResult) -> Accepted:
        request_id, place, deadline_ms = wanted.ask.request_id, admitted.position, admitted.deadline_ms
        if place is None:
            wait_ms = shared_monitor().wait_ms(queue_of(wanted.ask.user_id))
            raise refusal(admitted.verdict, _view(wanted.sale_id), admitted.now_ms, wait_ms)
        signed_place = signed_positions.sign_position(
            request_id, SignedPosition(wanted.ask.user_id, place, deadline_ms)
        )
        estimate = shared_monitor().estimate(place)
        content = accepted_response.encode_accepted(request_id, place, deadline_ms, estimate, signed_place)
        return Accepted(str(request_id), signed_place, accepted_response.poll_after_ms(estimate), content)


def _view(sale_id: int) -> SaleView:
    """Of a sale that ended long ago there is no view left, and yet a known key gets its own answer before the 404: such
    a sale has no article, and is refused in its turn."""
    try:
        return sales.find_sale(sale_id, missing_for_s=sales.RECENTLY_MISSING_S)  # who was shown it a moment ago may buy
    except Problem as problem:
        if problem.status != 404:
            raise
    return SaleView(sale_id, "", "", 0, 1, 0, 1, 0, 0, 0, Verdict.NO_SUCH_SALE.value, 0, LAST_MS)


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
        case Verdict.TOO_MANY_UNPAID:
            return Problem(status, kind, detail, retry_after_s=UNPAID_RETRY_S)
        case Verdict.TOO_MANY | Verdict.NO_QUEUE | Verdict.UNKNOWN:
            return Problem(status, kind, detail, retry_after_s=1)
        case Verdict.BACKLOG:
            wait_ms = wait_ms or 0
            excess_s = wait_ms / 1000 - settings.ENVIRONMENT.purchase_deadline_s
            return Problem(
                status, kind, detail, retry_after_s=min(max(1.0, excess_s), RETRY_SECONDS_MAX), wait_ms=wait_ms
            )
        case _:
            return Problem(status, kind, detail)


def unpaid_max(view: SaleView) -> int:
    """Units of a sale that one address may hold without paying; 0: no limit."""
    percent = settings.ENVIRONMENT.address_share_percent
    units = view.available + view.reserved + view.sold
    return min(UNPAID_MAX, max(1, units * percent // 100)) if percent else 0


def shut(view: SaleView) -> str:
    """By the operator's word; the window is for the one clock."""
    words = {"open": "", "paused": Verdict.PAUSED.value, Verdict.NO_SUCH_SALE.value: Verdict.NO_SUCH_SALE.value}
    return words.get(view.state, Verdict.CLOSED.value)


def body(content: bytes) -> dict[str, Any]:
    """A JSON object; nothing is an empty one."""
    try:
        found = json.loads(content or b"{}")
    except (ValueError, RecursionError) as error:
        raise Problem(400, "bad-json", "The body is no JSON.") from error
    if not isinstance(found, dict):
        raise Problem(400, "bad-json", "The body is no JSON object.")
    return found


def _ticket(text: str, user_id: str, sale_id: int) -> tuple[str, str, int]:
    """What is wrong with it, or its number and until when it is good."""
    if not text:
        return Verdict.TICKET_MISSING.value, "", 0
    ticket = tickets.verify_ticket(text, user_id, sale_id)
    if ticket is None:
        return Verdict.TICKET_INVALID.value, "", 0
    return "", ticket.number, ticket.expires_at_ms
