"""Judge the reasons of the gateway's refusals: one function for each reason."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Mapping

from seckill.report.invariants.clocks import SKEW_MS
from seckill.report.invariants.refusals import UNITS_MAX
from seckill.report.invariants.sale_history import SaleHistory
from seckill.report.rows import Attempt, OtherCall

STALE_MS = 10_000
"""A gateway that cannot read the sale keeps serving its last copy for this long."""
USER_RATE, USER_BURST, ADDRESS_RATE, ADDRESS_BURST = 5, 20, 200, 1000
"""The token buckets of the gateway: purchases per second, and bucket size. A test compares them with the gateway."""
USER_TRIES_MAX = 100
"""Purchases that one user may send in one sale."""
MOVING = ("slots", "topics", "backlog", "partitions")
"""Operator actions that may move a user to another partition start with one of these words."""
Call = Attempt | OtherCall


def reason_against(sale: SaleHistory, call: Call) -> str:
    if call.problem not in JUDGES:
        return f"the report does not know {call.problem!r}" if call.problem else "no reason was given"
    status, judge = JUDGES[call.problem]
    return judge(sale, call) if call.status == status else f"this reason has status {status}"


Judge = Callable[[SaleHistory, Call], str]
"""Returns why a refusal was not true, or an empty text if it was."""


def _sold_out(sale: SaleHistory, call: Call) -> str:
    version = call.stock_version if isinstance(call, Attempt) else None
    levels = sale.sold_out.get(call.sale_id or 0, [])
    if version is not None:
        levels = sale.at_version.get((call.sale_id or 0, version), [])
        if not levels:
            return f"stock version {version} never existed"
    earliest_ms, latest_ms = call.at_ms - STALE_MS - SKEW_MS, end_ms(call) + SKEW_MS
    was_sold_out = any(
        level.is_sold_out and level.from_ms <= latest_ms and level.until_ms >= earliest_ms for level in levels
    )
    return "" if was_sold_out else "units were available or held at that time"


def _closed(sale: SaleHistory, call: Call) -> str:
    known = sale.sales.get(call.sale_id or 0)
    if known is None or end_ms(call) + SKEW_MS >= known.closes_at_ms:
        return ""
    if known.state == "closed" and sale.closed.get(known.id, 0) <= end_ms(call) + SKEW_MS:
        return ""
    return "the sale was not over and no operator had closed it"


def _not_open(sale: SaleHistory, call: Call) -> str:
    known = sale.sales.get(call.sale_id or 0)
    return "" if known is None or call.at_ms - SKEW_MS < known.opens_at_ms else "the sale had opened"


def _paused(sale: SaleHistory, call: Call) -> str:
    spans = sale.paused.get(call.sale_id or 0, [])
    was_paused = any(
        began <= end_ms(call) + SKEW_MS and call.at_ms - STALE_MS - SKEW_MS <= ended for began, ended in spans
    )
    return "" if was_paused else "no operator had paused the sale"


def _no_sale(sale: SaleHistory, call: Call) -> str:
    made = sale.levels.get(call.sale_id or 0)
    return "" if not made or end_ms(call) < made[0].from_ms else "the sale existed"


def _key_reused(sale: SaleHistory, call: Call) -> str:
    assert isinstance(call, Attempt)
    quantities = sale.keys[call.user_id, call.sale_id, call.key]
    return "" if len(quantities) > 1 else "the key was not used for another quantity"


def _ticket_missing(sale: SaleHistory, call: Call) -> str:
    return "a ticket was sent" if isinstance(call, Attempt) and call.ticket else ""


def _ticket_invalid(sale: SaleHistory, call: Call) -> str:
    given = sale.tickets.get(call.ticket or "")
    is_own = given is not None and (given.user_id, given.sale_id) == (call.user_id, call.sale_id)
    return "the ticket was issued to this user for this sale" if is_own else ""


def _ticket_expired(sale: SaleHistory, call: Call) -> str:
    given = sale.tickets.get(call.ticket or "")
    if given is None or given.expires_at_ms is None or given.expires_at_ms <= end_ms(call) + SKEW_MS:
        return ""
    return f"the ticket was valid for another {given.expires_at_ms - end_ms(call)} ms"


def _ticket_spent(sale: SaleHistory, call: Call) -> str:
    assert isinstance(call, Attempt)
    users = sale.ticket_users.get(call.ticket or "", set()) - {(call.user_id, call.key)}
    return "the ticket was not used with another key" if call.ticket and not users else ""


def _too_many(sale: SaleHistory, call: Call) -> str:
    assert isinstance(call, Attempt)
    is_empty = (
        _is_empty(sale.by_user[call.user_id], call, USER_RATE, USER_BURST)
        or _is_empty(sale.by_address[call.address], call, ADDRESS_RATE, ADDRESS_BURST)
        or _is_empty(
            sale.all_attempts, call, ADDRESS_RATE, ADDRESS_BURST
        )  # an untrusted proxy makes all buyers share one address
    )
    return "" if is_empty else "neither the user nor the address had sent that many"


def _tries(sale: SaleHistory, call: Call) -> str:
    tried = bisect_right(sale.asked_ms[call.user_id, call.sale_id or 0], end_ms(call))
    return "" if tried > USER_TRIES_MAX else f"the user had sent only {tried - 1} purchases before"


def _unpaid(sale: SaleHistory, call: Call) -> str:
    """The share of a sale that one address may hold unpaid is a setting, but it is never zero."""
    assert isinstance(call, Attempt)
    first = sale.first_accepted.get(call.sale_id, {})
    was_first = any(at_ms <= end_ms(call) for key, at_ms in first.items() if key != (call.user_id, call.key))
    return "" if was_first else "no other purchase had been accepted"


def _is_empty(attempts: list[Attempt], call: Attempt, rate: int, burst: int) -> bool:
    """Whether the bucket may have been empty, if every attempt took its token as late as possible."""
    newest = bisect_right(attempts, end_ms(call), key=lambda attempt: attempt.at_ms)
    for count, number in enumerate(range(newest - 1, -1, -1), 1):
        apart_ms = max(0, call.at_ms - end_ms(attempts[number]))
        if count > burst - 1 + rate * apart_ms / 1000:
            return True
    return False


def _too_long(sale: SaleHistory, call: Call) -> str:
    entered, decided = sale.queue
    waiting = bisect_right(entered, end_ms(call) + SKEW_MS)
    is_busy = waiting and decided[waiting - 1] >= call.at_ms - STALE_MS - SKEW_MS
    return "" if is_busy else "the queue was empty"


def _moving(sale: SaleHistory, call: Call) -> str:
    return (
        ""
        if any(verb.verb.startswith(MOVING) for verb in sale.evidence.operator_actions)
        else "no operator had moved anything"
    )


def _bad_quantity(sale: SaleHistory, call: Call) -> str:
    return "the quantity was valid" if isinstance(call, Attempt) and 0 < call.quantity <= UNITS_MAX else ""


def _never_true(sale: SaleHistory, call: Call) -> str:
    return "the crowd never sends such a call"


def _no_order(sale: SaleHistory, call: Call) -> str:
    order = sale.evidence.order_by_id.get(call.order_id) if isinstance(call, OtherCall) and call.order_id else None
    return "the order belongs to the buyer" if order is not None and order.user_id == call.user_id else ""


def _not_pending(sale: SaleHistory, call: Call) -> str:
    if not isinstance(call, OtherCall) or call.order_id is None or call.order_id not in sale.evidence.order_by_id:
        return ""
    left_ms = [each.at_ms for each in sale.evidence.transitions if each.order_id == call.order_id and each.before]
    if call.what == "pay":
        left_ms.append(sale.evidence.order_by_id[call.order_id].pay_before_ms)
    return "" if any(at_ms <= end_ms(call) + SKEW_MS for at_ms in left_ms) else "the order was waiting for payment"


JUDGES: Mapping[str, tuple[int, Judge]] = {
    "sold-out": (409, _sold_out),
    "sale-closed": (410, _closed),
    "not-open-yet": (403, _not_open),
    "sale-paused": (503, _paused),
    "no-such-sale": (404, _no_sale),
    "no-such-article": (404, _never_true),
    "key-reused": (422, _key_reused),
    "ticket-missing": (403, _ticket_missing),
    "ticket-invalid": (403, _ticket_invalid),
    "ticket-expired": (403, _ticket_expired),
    "ticket-spent": (409, _ticket_spent),
    "too-many-requests": (429, _too_many),
    "too-many-tries": (429, _tries),
    "too-many-unpaid": (429, _unpaid),
    "queue-too-long": (503, _too_long),
    "queue-moving": (503, _moving),
    "bad-quantity": (400, _bad_quantity),
    "bad-idempotency-key": (400, _never_true),
    "not-signed-in": (401, _never_true),
    "no-such-order": (404, _no_order),
    "nothing-to-pay": (409, _not_pending),
    "not-cancellable": (409, _not_pending),
}
"""For each reason the status of its answer, and the function that judges it."""


def end_ms(call: Call) -> int:
    return call.at_ms + call.took_ms
