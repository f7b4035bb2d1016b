"""What a buyer can do: get a ticket, and buy. `buy` is the purchase path from top to bottom."""

from __future__ import annotations

import re
import time
from collections.abc import Sequence
from typing import Any, NamedTuple

import orjson
from django.conf import settings
from redis.exceptions import RedisError

from gateway import accepted_response, admission_fallback, metrics, redis_clock, sales, signed_positions, tickets
from gateway.admission import AdmissionRequest, AdmissionResult, Verdict
from gateway.admission_fallback import body_fingerprint
from gateway.backlog_monitor import shared_monitor
from gateway.batching import MicroBatcher
from gateway.events import UNITS_MAX, PurchaseRequested
from gateway.identity import derive_request_id
from gateway.purchase_queue import ACK_SECONDS_MAX, PurchaseQueue, QueuePermit
from gateway.refusals import admission_unavailable, queue_unavailable, queue_unknown, refusal
from gateway.sale_json import Availability, availability
from gateway.signed_positions import SignedPosition
from gateway.time_limit import TimeLimit
from inventory.events import SaleView
from seckill.messaging.record_position import RecordPosition
from seckill.monitoring import traces
from seckill.web import tokens
from seckill.web.client_address import identify_client
from seckill.web.problems import Problem

WAITING_MAX = 768
"""Purchases that wait for admission or for the broker. More are refused, so a stalled broker affects nothing else."""
IDEMPOTENCY_KEY = re.compile(r"[\x21-\x7e]{1,64}")
TICKET_CHARACTERS_MAX = 400
UNPAID_UNITS_MAX = 1000
"""Of one address in one sale, however large: admission reads each of them when it corrects their sum."""
LATEST_MS = 10**16
OPERATOR_REFUSALS = {"open": "", "paused": Verdict.PAUSED, Verdict.NO_SUCH_SALE: Verdict.NO_SUCH_SALE}


class PurchaseCall(NamedTuple):
    """A purchase as it arrived over HTTP. `user_id` comes from a page's session; if it is empty, the token decides."""

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
    """The body of the 202, and what a page needs of it."""

    request_id: str
    signed_position: str
    poll_after_ms: int
    content: bytes


class Purchases:
    """The purchase path. Everything runs on the event loop, so no state needs a lock."""

    def __init__(self, queue: PurchaseQueue) -> None:
        self.queue = queue
        self.waiting_count = 0
        self.limit = TimeLimit(ACK_SECONDS_MAX)
        self._admission = MicroBatcher(self._admit_batch)

    async def buy(self, call: PurchaseCall) -> Accepted:
        """Put the request into the queue; returns once the broker has it. The same key gets the same answer.

        Raises `Problem`.
        """
        metrics.OFFERED.inc()
        began = time.perf_counter()
        answer = metrics.ACCEPTED
        try:
            return await self._buy(call)
        except Problem as problem:
            answer = problem.kind
            raise
        finally:
            metrics.observe_purchase(answer, time.perf_counter() - began)

    async def _buy(self, call: PurchaseCall) -> Accepted:
        if self.waiting_count == WAITING_MAX:
            raise queue_unavailable()
        self.waiting_count += 1
        try:
            with self.limit:
                user_id = identify_buyer(call)
                body = parse_json_object(call.body)
                sale = await _find_sale(call.sale_id)
                view = _select_article(sale, body)
                permit = QueuePermit(self.queue, user_id, is_sold_out=_is_sold_out(view))
                try:
                    request = parse_call(call, body, user_id, view, permit.refusal or "", unpaid_units_max(sale))
                    admitted = await self._admission.run(request)
                    position = await self._enqueue(call, view, request, admitted, permit)
                finally:
                    permit.release()
        except TimeoutError as late:
            self.queue.record_timeout()
            raise queue_unknown() from late
        finally:
            self.waiting_count -= 1
        return _accept(request, position, admitted.deadline_ms)

    async def _admit_batch(self, requests: Sequence[AdmissionRequest]) -> list[AdmissionResult]:
        reported = self.queue.unreported()
        try:
            results = await admission_fallback.admit_requests(requests, reported)
        except RedisError as fault:
            raise admission_unavailable(fault) from fault
        self.queue.forget_reported(reported)
        return results

    async def _enqueue(
        self, call: PurchaseCall, view: SaleView, request: AdmissionRequest, admitted: AdmissionResult,
        permit: QueuePermit,
    ) -> RecordPosition:  # fmt: skip
        if admitted.verdict not in (Verdict.ADMITTED, Verdict.KNOWN):
            wait_ms = shared_monitor().wait_ms(permit.topic)
            raise refusal(admitted.verdict, view, admitted.now_ms, wait_ms)
        if admitted.position is not None:
            return admitted.position
        requested = PurchaseRequested(
            request.request_id, request.user_id, view.id, view.sku, request.quantity, admitted.admitted_at_ms,
            admitted.deadline_ms,
        )  # fmt: skip
        trace = traces.continued(call.traceparent, request.request_id)
        return await self.queue.enqueue(requested, trace, permit, is_new=admitted.verdict is Verdict.ADMITTED)


def identify_buyer(call: PurchaseCall) -> str:
    user_id = call.user_id or tokens.user_of_bearer(call.authorization)
    if not IDEMPOTENCY_KEY.fullmatch(call.key):
        raise Problem(400, "bad-idempotency-key", "Send an Idempotency-Key of 1 to 64 printable characters.")
    return user_id


def parse_call(
    call: PurchaseCall, body: dict[str, Any], user_id: str, view: SaleView, full: str, unpaid_max: int
) -> AdmissionRequest:
    """Raises `Problem` if the call is malformed. What only admission can judge travels with the request."""
    quantity = body.get("quantity", 1)
    if type(quantity) is not int or not 0 < quantity <= UNITS_MAX:
        raise Problem(400, "bad-quantity", "`quantity` must be a whole number from 1 on.")
    request_id = derive_request_id(settings.SECRET_KEY, user_id, view.id, call.key)
    ticket_refusal, number, expires_at_ms = _check_ticket(call.ticket[:TICKET_CHARACTERS_MAX], user_id, view.id)
    client = identify_client(call.peer, call.forwarded)
    return AdmissionRequest(
        request_id, body_fingerprint(view.sku, quantity) if view.sku else "", user_id, client.address,
        view.opens_at_ms, view.closes_at_ms, operator_refusal(view), ticket_refusal, number, expires_at_ms,
        full, sale_id=view.id, quantity=quantity, unpaid_max=0 if client.is_proxy else unpaid_max,
    )  # fmt: skip


def parse_json_object(content: bytes) -> dict[str, Any]:
    """An empty body counts as an empty object."""
    try:
        found = orjson.loads(content or b"{}")
    except ValueError as error:
        raise Problem(400, "bad-json", "The body is not JSON.") from error
    if not isinstance(found, dict):
        raise Problem(400, "bad-json", "The body is not a JSON object.")
    return found


def issue_ticket(view: SaleView, user_id: str) -> tuple[str, int]:
    """A ticket and its expiry. Raises `Problem` unless the sale is open."""
    now_ms = redis_clock.now_ms()
    if now_ms < view.opens_at_ms:
        raise refusal(Verdict.NOT_OPEN_YET, view, now_ms)
    if now_ms >= view.closes_at_ms:
        raise refusal(Verdict.CLOSED, view, now_ms)
    if verdict := operator_refusal(view):
        raise refusal(Verdict(verdict), view, now_ms)
    text, ticket = tickets.issue_ticket(user_id, view.id, now_ms)
    return text, ticket.expires_at_ms


def operator_refusal(view: SaleView) -> str:
    """From the state that the operator has set. Admission judges the window, by Redis' clock."""
    return OPERATOR_REFUSALS.get(view.state, Verdict.CLOSED)


def unpaid_units_max(view: SaleView) -> int:
    """Units of a sale that one address may hold without paying; 0: no limit."""
    percent = settings.ENVIRONMENT.address_share_percent
    units = view.available + view.reserved + view.sold
    units += sum(each.available + each.reserved + each.sold for each in view.more_articles)
    return min(UNPAID_UNITS_MAX, max(1, units * percent // 100)) if percent else 0


async def _find_sale(sale_id: int) -> SaleView:
    """A sale that ended long ago has no view left, but a known key still gets its own answer, not the 404. So admission
    judges a view without an article."""
    try:
        # A buyer who was shown a new sale a moment ago may buy.
        return await sales.find_sale_on_loop(sale_id, missing_for_s=sales.RECENTLY_MISSING_S)
    except Problem as problem:
        if problem.status != 404:
            raise
    return SaleView(sale_id, "", "", 0, 1, 0, 1, 0, 0, 0, Verdict.NO_SUCH_SALE.value, 0, LATEST_MS)


def _select_article(view: SaleView, body: dict[str, Any]) -> SaleView:
    """The view of the article in `sku`; without it, of the first article. Raises `Problem`."""
    sku = body.get("sku", view.sku)
    if sku == view.sku or not view.sku:
        return view
    found = next((each for each in view.articles() if each.sku == sku), None)
    if found is None:
        raise Problem(404, "no-such-article", "This sale has no article with this `sku`.")
    return found


def _is_sold_out(view: SaleView) -> bool:
    return availability(view) is Availability.SOLD_OUT


def _check_ticket(text: str, user_id: str, sale_id: int) -> tuple[str, str, int]:
    """Why the ticket is refused, or "", its number and its expiry."""
    if not text:
        return Verdict.TICKET_MISSING.value, "", 0
    ticket = tickets.verify_ticket(text, user_id, sale_id)
    if ticket is None:
        return Verdict.TICKET_INVALID.value, "", 0
    return "", ticket.number, ticket.expires_at_ms


def _accept(request: AdmissionRequest, position: RecordPosition, deadline_ms: int) -> Accepted:
    signed = signed_positions.sign_position(request.request_id, SignedPosition(request.user_id, position, deadline_ms))
    estimate = shared_monitor().estimate(position)
    content = accepted_response.encode_accepted(request.request_id, position, deadline_ms, estimate, signed)
    return Accepted(str(request.request_id), signed, accepted_response.poll_after_ms(estimate), content)
