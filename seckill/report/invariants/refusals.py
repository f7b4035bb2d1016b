"""Refusals: the reason inventory gave is the true one, and the first that applied."""

from __future__ import annotations

from collections import defaultdict
from typing import NamedTuple

from seckill.consistency.evidence import Evidence
from seckill.consistency.invariants.clocks import SKEW_MS
from seckill.consistency.rows import RESERVED, Decided, Stock
from seckill.consistency.verdicts import Found, Subject

UNITS_MAX = 1_000_000
LOCK_MS = 30_000
"""So long a batch may wait for the stock's lock after it has read the state of the sale."""


class Purchase(NamedTuple):
    """A purchase while it is active: from the stock version that reserved its units to the one that gave them back."""

    request_id: str
    reserved_at: int
    reserved_at_ms: int
    back_at: int | None
    back_at_ms: int | None


def reasons_are_true(evidence: Evidence, found: Found) -> None:
    """I28. A request is INVALID only without such an article or if its dead letter was discarded, TOO_LATE only past
    its deadline, CLOSED only after the operator has closed the sale, LIMIT_REACHED only above the cap, DUPLICATE only
    while another purchase of the same user is active; the first of these that applies is the answer."""
    articles = {(stock.sale_id, stock.sku): stock for stock in evidence.stocks}
    closed = closed_at(evidence)
    states = {sale.id: sale.state for sale in evidence.sales}
    active = _purchases(evidence)
    for row in evidence.decided:
        found.looked_at += 1
        stock = articles.get((row.sale_id, row.sku))
        why = _first_lie(evidence, row, stock, states.get(row.sale_id, ""), closed, active)
        if why:
            found.say_wrong(f"{row.decision}, {why}", Subject(row.request_id))
    for stock in evidence.stocks:
        if stock.cap is None:
            found.unknown.append(f"no cap is known of sale {stock.sale_id} {stock.sku}")


def closed_at(evidence: Evidence) -> dict[int, int]:
    """When an operator has closed each sale, where the audit trail still says so."""
    return {
        int(verb.target.removeprefix("sale ")): verb.at_ms
        for verb in evidence.verbs
        if verb.verb == "sale close" and verb.result == "done" and verb.target.removeprefix("sale ").isdecimal()
    }


def _first_lie(
    evidence: Evidence, row: Decided, stock: Stock | None, state: str, closed: dict[int, int],
    active: dict[tuple[int, str], list[Purchase]],
) -> str:  # fmt: skip
    """Why the decision is not the one that the rule makes; empty: it is."""
    letter = evidence.dead_requests.get(row.place)
    if row.decision == "INVALID":
        is_discarded = letter is not None and letter.state == "discarded"
        is_possible = stock is not None and 0 < row.quantity <= UNITS_MAX
        return "and the request is valid" if is_possible and not is_discarded else ""
    if stock is None or not 0 < row.quantity <= UNITS_MAX:
        return "of an article that is not for sale" if stock is None else f"of {row.quantity} units"
    is_late = row.decided_at_ms > row.deadline_ms
    if is_late != (row.decision == "TOO_LATE"):
        return "and its deadline had passed" if is_late else "before its deadline"
    if is_late:
        return ""
    closed_ms = closed.get(row.sale_id)
    if row.decision == "CLOSED":
        if state != "closed":
            return f"and the sale is {state}"
        if closed_ms is not None and row.decided_at_ms < closed_ms - SKEW_MS:
            return f"{closed_ms - row.decided_at_ms} ms before the sale was closed"
        return ""
    if state == "closed" and closed_ms is not None and row.decided_at_ms > closed_ms + LOCK_MS:
        return f"{row.decided_at_ms - closed_ms} ms after the sale was closed"
    if stock.cap is not None and (row.quantity > stock.cap) != (row.decision == "LIMIT_REACHED"):
        return f"of {row.quantity} units, and {stock.cap} are allowed"
    if row.decision == "LIMIT_REACHED":
        return ""
    return _duplicate(row, active.get((row.sale_id, row.user_id), []))


def _duplicate(row: Decided, purchases: list[Purchase]) -> str:
    """Holders are read just after the stock's version: a purchase may have begun meanwhile, or ended."""
    others = [each for each in purchases if each.request_id != row.request_id]
    if row.decision == "DUPLICATE":
        may_be = any(
            (each.back_at is None or each.back_at > row.stock_version)
            and (each.reserved_at <= row.stock_version or each.reserved_at_ms <= row.decided_at_ms + SKEW_MS)
            for each in others
        )
        return "" if may_be else "and the user had no other active purchase"
    is_certain = any(
        each.reserved_at <= row.stock_version - (row.decision == RESERVED)
        and (each.back_at_ms is None or each.back_at_ms > row.decided_at_ms + SKEW_MS)
        for each in others
    )
    return "and the user had another active purchase" if is_certain else ""


def _purchases(evidence: Evidence) -> dict[tuple[int, str], list[Purchase]]:
    """By sale and user."""
    found: dict[tuple[int, str], list[Purchase]] = defaultdict(list)
    sales = {stock.id: stock.sale_id for stock in evidence.stocks}
    for request, entries in evidence.entries_of.items():
        row = evidence.decision_of.get(request)
        begun = [entry for entry in entries if entry.kind == "reserve"]
        back = [entry for entry in entries if entry.kind in ("release", "return")]
        if row is not None and begun:
            found[sales.get(begun[0].stock_id, 0), row.user_id].append(
                Purchase(
                    request, begun[0].version, begun[0].at_ms,
                    back[0].version if back else None, back[0].at_ms if back else None,
                )
            )  # fmt: skip
    return found
