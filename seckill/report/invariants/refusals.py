"""Check inventory's refusals: the stated reason is true and the first one that applies."""

from __future__ import annotations

from collections import defaultdict
from typing import NamedTuple

from seckill.report.evidence import Evidence
from seckill.report.invariants.clocks import SKEW_MS
from seckill.report.rows import RESERVED, Decision, Stock
from seckill.report.verdicts import Findings, Subject

UNITS_MAX = 1_000_000
LOCK_MS = 30_000
"""A batch may wait this long for the stock's lock after it has read the state of the sale."""


class ActivePurchase(NamedTuple):
    """When a purchase was active: from the stock version that reserved its units to the one that returned them."""

    request_id: str
    sku: str
    reserved_at: int
    reserved_at_ms: int
    returned_at: int | None
    returned_at_ms: int | None


def reasons_are_true(evidence: Evidence, findings: Findings) -> None:
    """I28. Every decision follows the rule, whose first applicable reason decides: INVALID if the article does not
    exist, the quantity is impossible or the dead letter was discarded; TOO_LATE after the deadline; CLOSED after an
    operator closed the sale; LIMIT_REACHED above the cap; DUPLICATE while another purchase of the user is active."""
    articles = {(stock.sale_id, stock.sku): stock for stock in evidence.stocks}
    closed = closed_at(evidence)
    states = {sale.id: sale.state for sale in evidence.sales}
    active = _purchases(evidence)
    for row in evidence.decisions:
        findings.checked += 1
        stock = articles.get((row.sale_id, row.sku))
        why = _deviation(evidence, row, stock, states.get(row.sale_id, ""), closed, active)
        if why:
            findings.add_violation(f"{row.decision} {why}", Subject(row.request_id))
    for stock in evidence.stocks:
        if stock.cap is None:
            findings.unknown.append(f"the cap of sale {stock.sale_id} {stock.sku} is unknown")


def closed_at(evidence: Evidence) -> dict[int, int]:
    """When an operator closed each sale, as far as the audit trail reaches back."""
    return {
        int(verb.target.removeprefix("sale ")): verb.at_ms
        for verb in evidence.operator_actions
        if verb.verb == "sale close" and verb.result == "done" and verb.target.removeprefix("sale ").isdecimal()
    }


def _deviation(
    evidence: Evidence, row: Decision, stock: Stock | None, state: str, closed: dict[int, int],
    active: dict[tuple[int, str], list[ActivePurchase]],
) -> str:  # fmt: skip
    """Why the decision differs from the rule, or an empty text if it does not."""
    letter = evidence.dead_request_by_position.get(row.position)
    if row.decision == "INVALID":
        is_discarded = letter is not None and letter.state == "discarded"
        is_possible = stock is not None and 0 < row.quantity <= UNITS_MAX
        return "but the request is valid" if is_possible and not is_discarded else ""
    if stock is None or not 0 < row.quantity <= UNITS_MAX:
        return "for an article that is not for sale" if stock is None else f"for {row.quantity} units"
    is_late = row.decided_at_ms > row.deadline_ms
    if is_late != (row.decision == "TOO_LATE"):
        return "although its deadline had passed" if is_late else "before its deadline"
    if is_late:
        return ""
    closed_ms = closed.get(row.sale_id)
    if row.decision == "CLOSED":
        if state != "closed":
            return f"but the sale is {state}"
        if closed_ms is not None and row.decided_at_ms < closed_ms - SKEW_MS:
            return f"{closed_ms - row.decided_at_ms} ms before the sale was closed"
        return ""
    if state == "closed" and closed_ms is not None and row.decided_at_ms > closed_ms + LOCK_MS:
        return f"{row.decided_at_ms - closed_ms} ms after the sale was closed"
    if stock.cap is not None and (row.quantity > stock.cap) != (row.decision == "LIMIT_REACHED"):
        return f"for {row.quantity} units, where {stock.cap} are allowed"
    if row.decision == "LIMIT_REACHED":
        return ""
    return _duplicate(row, active.get((row.sale_id, row.user_id), []))


def _duplicate(row: Decision, purchases: list[ActivePurchase]) -> str:
    """Inventory reads holders just after the stock's version, so a purchase may have begun or ended in between. The
    versions of another article of the sale say nothing about this one, so only times are compared."""
    others = [each for each in purchases if each.request_id != row.request_id]
    if row.decision == "DUPLICATE":
        may_be = any(_may_be_active(row, each) for each in others)
        return "" if may_be else "but the user had no other active purchase"
    is_certain = any(
        _was_reserved_before(row, each)
        and (each.returned_at_ms is None or each.returned_at_ms > row.decided_at_ms + SKEW_MS)
        for each in others
    )
    return "although the user had another active purchase" if is_certain else ""


def _may_be_active(row: Decision, other: ActivePurchase) -> bool:
    is_begun = other.reserved_at_ms <= row.decided_at_ms + SKEW_MS
    if other.sku != row.sku:
        return is_begun and (other.returned_at_ms is None or other.returned_at_ms > row.decided_at_ms - SKEW_MS)
    is_active = other.returned_at is None or other.returned_at > row.stock_version
    return is_active and (is_begun or other.reserved_at <= row.stock_version)


def _was_reserved_before(row: Decision, other: ActivePurchase) -> bool:
    if other.sku != row.sku:
        return other.reserved_at_ms < row.decided_at_ms - SKEW_MS
    return other.reserved_at <= row.stock_version - (row.decision == RESERVED)


def _purchases(evidence: Evidence) -> dict[tuple[int, str], list[ActivePurchase]]:
    """By sale and user."""
    found: dict[tuple[int, str], list[ActivePurchase]] = defaultdict(list)
    sales = {stock.id: stock.sale_id for stock in evidence.stocks}
    for request, entries in evidence.entries_by_request.items():
        row = evidence.decision_by_request.get(request)
        begun = [entry for entry in entries if entry.kind == "reserve"]
        back = [entry for entry in entries if entry.kind in ("release", "return")]
        if row is not None and begun:
            found[sales.get(begun[0].stock_id, 0), row.user_id].append(
                ActivePurchase(
                    request, row.sku, begun[0].version, begun[0].at_ms,
                    back[0].version if back else None, back[0].at_ms if back else None,
                )
            )  # fmt: skip
    return found
