"""Gateway refusals: what a buyer was told instead of "accepted" was true of the sale at that moment."""

from __future__ import annotations

from bisect import bisect_right
from collections import Counter
from collections.abc import Callable, Mapping

from seckill.consistency.evidence import Evidence
from seckill.consistency.identity import Id
from seckill.consistency.invariants.clocks import SKEW_MS
from seckill.consistency.invariants.outages import is_outage, outages
from seckill.consistency.invariants.refusals import UNITS_MAX
from seckill.consistency.invariants.sale_history import SaleHistory
from seckill.consistency.rows import Attempt, Called
from seckill.consistency.verdicts import Found, Subject

STALE_MS = 10_000
"""A gateway that cannot read the sale serves what it knew for so long."""
USER_RATE, USER_BURST, ADDRESS_RATE, ADDRESS_BURST = 5, 20, 200, 1000
"""The token buckets of the gateway: purchases a second, and at once."""
USER_TRIES_MAX = 100
"""Of one user in one sale."""
MOVING = ("slots", "topics", "backlog", "partitions")
"""Verbs under which a user's place in the queue may be moved."""

Call = Attempt | Called


def gateway_told_the_truth(evidence: Evidence, found: Found) -> None:
    """I29. Sold out, closed, paused, not open yet, unknown, too often, ticket or key used before, queue too long: each
    refusal of the gateway names its reason, and that reason held when it was given; nobody is turned away for long
    without a fault that explains it, and nobody let in without a good ticket of his own; what was accepted about an
    order was done."""
    sale = SaleHistory(evidence)
    counts: Counter[str] = Counter()
    calls: list[Call] = [*evidence.attempts, *evidence.called]
    for call in calls:
        found.looked_at += 1
        if call.status in (200, 201, 202):
            continue
        kind = call.problem or f"status {call.status}"
        counts[kind if call.status else "no answer"] += 1
        if is_outage(call) and call.problem not in JUDGES:
            continue
        why = _why_false(sale, call)
        if why:
            found.say_wrong(f"{_what(call)} was refused with {call.status} {call.problem}: {why}", _of(call))
    _accepted(evidence, sale, found)
    for outage in outages(evidence):
        found.say_wrong(str(outage))
    _orders(evidence, found)
    for kind, count in counts.most_common():
        found.facts[kind] = count


def _why_false(sale: SaleHistory, call: Call) -> str:
    if call.problem not in JUDGES:
        return f"the report knows no {call.problem!r}" if call.problem else "no reason was given"
    status, judge = JUDGES[call.problem]
    return judge(sale, call) if call.status == status else f"that is answered with {status}"


Judge = Callable[[SaleHistory, Call], str]
"""Why a refusal was not true; empty: it was."""


def _sold_out(sale: SaleHistory, call: Call) -> str:
    version = call.stock_version if isinstance(call, Attempt) else None
    levels = sale.sold_out.get(call.sale_id or 0, [])
    if version is not None:
        levels = sale.at_version.get((call.sale_id or 0, version), [])
        if not levels:
            return f"at stock version {version}, which never was"
    earliest_ms, latest_ms = call.at_ms - STALE_MS - SKEW_MS, _end(call) + SKEW_MS
    was_so = any(level.is_sold_out and level.from_ms <= latest_ms and level.until_ms >= earliest_ms for level in levels)
    return "" if was_so else "units were free or held at that time"


def _closed(sale: SaleHistory, call: Call) -> str:
    known = sale.sales.get(call.sale_id or 0)
    if known is None or _end(call) + SKEW_MS >= known.closes_at_ms:
        return ""
    if known.state == "closed" and sale.closed.get(known.id, 0) <= _end(call) + SKEW_MS:
        return ""
    return "it was not over, and nobody had closed it"


def _not_open(sale: SaleHistory, call: Call) -> str:
    known = sale.sales.get(call.sale_id or 0)
    return "" if known is None or call.at_ms - SKEW_MS < known.opens_at_ms else "it had opened"


def _paused(sale: SaleHistory, call: Call) -> str:
    spans = sale.paused.get(call.sale_id or 0, [])
    was_paused = any(
        began <= _end(call) + SKEW_MS and call.at_ms - STALE_MS - SKEW_MS <= ended for began, ended in spans
    )
    return "" if was_paused else "nobody had paused it"


def _no_sale(sale: SaleHistory, call: Call) -> str:
    made = sale.levels.get(call.sale_id or 0)
    return "" if not made or _end(call) < made[0].from_ms else "there was such a sale"


def _key_reused(sale: SaleHistory, call: Call) -> str:
    assert isinstance(call, Attempt)
    asked = sale.keys[call.user_id, call.sale_id, call.key]
    return "" if len(asked) > 1 else "the key was never used for anything else"


def _ticket_missing(sale: SaleHistory, call: Call) -> str:
    return "one was sent" if isinstance(call, Attempt) and call.ticket else ""


def _ticket_invalid(sale: SaleHistory, call: Call) -> str:
    given = sale.tickets.get(call.ticket or "")
    is_own = given is not None and (given.user_id, given.sale_id) == (call.user_id, call.sale_id)
    return "it was given to this user for this sale" if is_own else ""


def _ticket_expired(sale: SaleHistory, call: Call) -> str:
    given = sale.tickets.get(call.ticket or "")
    if given is None or given.expires_at_ms is None or given.expires_at_ms <= _end(call) + SKEW_MS:
        return ""
    return f"it was good for {given.expires_at_ms - _end(call)} ms more"


def _ticket_spent(sale: SaleHistory, call: Call) -> str:
    assert isinstance(call, Attempt)
    users = sale.ticket_users.get(call.ticket or "", set()) - {(call.user_id, call.key)}
    return "it was sent with no other key" if call.ticket and not users else ""


def _too_many(sale: SaleHistory, call: Call) -> str:
    assert isinstance(call, Attempt)
    is_empty = (
        _is_empty(sale.by_user[call.user_id], call, USER_RATE, USER_BURST)
        or _is_empty(sale.by_address[call.address], call, ADDRESS_RATE, ADDRESS_BURST)
        or _is_empty(sale.everybody, call, ADDRESS_RATE, ADDRESS_BURST)  # forwarded addresses may not be trusted
    )
    return "" if is_empty else "neither its user nor its address had sent that many"


def _tries(sale: SaleHistory, call: Call) -> str:
    tried = bisect_right(sale.asked_ms[call.user_id, call.sale_id or 0], _end(call))
    return "" if tried > USER_TRIES_MAX else f"the user had tried {tried - 1} times"


def _unpaid(sale: SaleHistory, call: Call) -> str:
    """What share of a sale an address may hold is a setting; nothing at all is never too much."""
    assert isinstance(call, Attempt)
    first = sale.first_accepted.get(call.sale_id, {})
    was_first = any(at_ms <= _end(call) for key, at_ms in first.items() if key != (call.user_id, call.key))
    return "" if was_first else "nobody had asked for any units"


def _is_empty(attempts: list[Attempt], call: Attempt, rate: int, burst: int) -> bool:
    """Could the bucket have been empty? Whatever was sent by then may have taken a token, as late as it may."""
    newest = bisect_right(attempts, _end(call), key=lambda attempt: attempt.at_ms)
    for count, number in enumerate(range(newest - 1, -1, -1), 1):
        apart_ms = max(0, call.at_ms - _end(attempts[number]))
        if count > burst - 1 + rate * apart_ms / 1000:
            return True
    return False


def _too_long(sale: SaleHistory, call: Call) -> str:
    entered, decided = sale.queue
    waiting = bisect_right(entered, _end(call) + SKEW_MS)
    is_busy = waiting and decided[waiting - 1] >= call.at_ms - STALE_MS - SKEW_MS
    return "" if is_busy else "nothing was in the queue"


def _moving(sale: SaleHistory, call: Call) -> str:
    return "" if any(verb.verb.startswith(MOVING) for verb in sale.evidence.verbs) else "nothing was moved"


def _bad_quantity(sale: SaleHistory, call: Call) -> str:
    return "it is a quantity" if isinstance(call, Attempt) and 0 < call.quantity <= UNITS_MAX else ""


def _never(sale: SaleHistory, call: Call) -> str:
    return "the crowd gives no cause for that"


def _no_order(sale: SaleHistory, call: Call) -> str:
    order = sale.evidence.order_by_id.get(call.order_id) if isinstance(call, Called) and call.order_id else None
    return "the order is the buyer's own" if order is not None and order.user_id == call.user_id else ""


def _not_pending(sale: SaleHistory, call: Call) -> str:
    if not isinstance(call, Called) or call.order_id is None or call.order_id not in sale.evidence.order_by_id:
        return ""
    left_ms = [each.at_ms for each in sale.evidence.transitions if each.order_id == call.order_id and each.before]
    if call.what == "pay":
        left_ms.append(sale.evidence.order_by_id[call.order_id].pay_before_ms)
    return "" if any(at_ms <= _end(call) + SKEW_MS for at_ms in left_ms) else "the order waited for payment"


JUDGES: Mapping[str, tuple[int, Judge]] = {
    "sold-out": (409, _sold_out),
    "sale-closed": (410, _closed),
    "not-open-yet": (403, _not_open),
    "sale-paused": (503, _paused),
    "no-such-sale": (404, _no_sale),
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
    "bad-idempotency-key": (400, _never),
    "not-signed-in": (401, _never),
    "no-such-order": (404, _no_order),
    "nothing-to-pay": (409, _not_pending),
    "not-cancellable": (409, _not_pending),
}
"""Of each kind of refusal: its status, and what is wrong with it if anything is."""


def _accepted(evidence: Evidence, sale: SaleHistory, found: Found) -> None:
    """Nobody is let in without a ticket that was his, for this sale, in time, and for this key alone."""
    first: dict[tuple[str, int, str], Attempt] = {}
    for attempt in sorted(evidence.attempts, key=lambda attempt: attempt.at_ms):
        key = (attempt.user_id, attempt.sale_id, attempt.key)
        is_known = key in first or attempt.status != 202
        first.setdefault(key, attempt)
        if is_known or attempt.ticket is None:
            continue  # a key that was tried before may be known by now, whatever comes with it
        given = sale.tickets.get(attempt.ticket)
        why = ""
        if given is None or (given.user_id, given.sale_id) != key[:2]:
            why = "with a ticket that was not given to its buyer for this sale"
        elif given.expires_at_ms is not None and given.expires_at_ms < attempt.at_ms - SKEW_MS:
            why = f"{attempt.at_ms - given.expires_at_ms} ms after its ticket had expired"
        elif sale.accepted_keys[attempt.ticket] - {key[2]}:
            why = "with a ticket that was spent"
        if why:
            found.say_wrong(f"a purchase was accepted {why}", _of(attempt))


def _orders(evidence: Evidence, found: Found) -> None:
    """What was promised about an order was done."""
    paying = {payment.order_id for payment in evidence.payments}
    cancelled = {change.order_id for change in evidence.transitions if change.after == "CANCELLED"}
    done: Mapping[str, set[Id]] = {"pay": paying, "cancel": cancelled}
    for call in evidence.called:
        if call.status != 202 or call.what not in done:
            continue
        order = evidence.order_by_id.get(call.order_id) if call.order_id is not None else None
        if order is None or order.user_id != call.user_id:
            found.say_wrong(f"{call.what} of another's order was accepted", _of(call))
        elif order.id not in done[call.what]:
            found.say_missing(f"{call.what} was accepted, and nothing came of it", _of(call))


def _end(call: Call) -> int:
    return call.at_ms + call.took_ms


def _what(call: Call) -> str:
    return "a purchase" if isinstance(call, Attempt) else f"a call ({call.what})"


def _of(call: Call) -> Subject:
    return Subject(None, call.order_id if isinstance(call, Called) else None, call.user_id)
