"""Machine: the rule. Takes requests in order of arrival, the stock row and the active buyers; makes one decision each.

The caller has locked the row, or needs no lock because every request will be rejected.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from dataclasses import dataclass
from typing import NamedTuple

from gateway.events import PurchaseRequested
from inventory.events import Decision

REQUEST_UNITS_MAX = 1_000_000


@dataclass(frozen=True, slots=True)
class StockSnapshot:
    available: int
    version: int
    cap: int
    unit_price: int
    is_sale_open: bool


class RequestDecision(NamedTuple):
    """`version`: for RESERVED the version of its own ledger entry; for a rejection the row version it is based on."""

    request: PurchaseRequested
    decision: Decision
    version: int


def decide_requests(
    requests: Iterable[PurchaseRequested], stock: StockSnapshot | None, active_buyers: Collection[str], now_ms: int
) -> list[RequestDecision]:
    """Each grant leaves fewer units for the next request. `stock` is None if the sale or the article does not exist."""
    decided = []
    active = set(active_buyers)
    available, version = (stock.available, stock.version) if stock is not None else (0, 0)
    for request in requests:
        decision = _decide_one(request, stock, available, active, now_ms)
        if decision is Decision.RESERVED:
            available -= request.quantity
            version += 1
            active.add(request.user_id)
        decided.append(RequestDecision(request, decision, version))
    return decided


def _decide_one(
    request: PurchaseRequested, stock: StockSnapshot | None, available: int, active: Collection[str], now_ms: int
) -> Decision:
    if stock is None or not 0 < request.quantity <= REQUEST_UNITS_MAX:
        return Decision.INVALID
    if now_ms > request.deadline_ms:
        return Decision.TOO_LATE
    if not stock.is_sale_open:
        return Decision.CLOSED
    if request.quantity > stock.cap:
        return Decision.LIMIT_REACHED
    if request.user_id in active:
        return Decision.DUPLICATE
    if available < request.quantity:
        return Decision.SOLD_OUT
    return Decision.RESERVED
