"""Machine: the rule. Requests in the order of arrival, the stock row and the holders in; one decision each out.

Pure: the caller has the row locked, or knows that it needs no lock because every request is refused.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass
from typing import NamedTuple
from uuid import UUID

from gateway.events import PurchaseRequested
from inventory.events import Decision

MOST_UNITS = 1_000_000


@dataclass(frozen=True, slots=True)
class StockNow:
    """What the row says."""

    available: int
    version: int
    cap: int
    unit_price: int
    sale_open: bool


class Decided(NamedTuple):
    """`version` of a RESERVED is that of its own ledger entry; of a refusal, that of the row it rests on."""

    request: PurchaseRequested
    decision: Decision
    version: int


def decide(
    requests: Iterable[PurchaseRequested], stock: StockNow | None, holders: Collection[str], now_ms: int
) -> list[Decided]:
    """In order of arrival; a grant lowers what the next one finds. No stock: there is no such article or sale."""
    decided = []
    active = set(holders)
    available, version = (stock.available, stock.version) if stock is not None else (0, 0)
    for request in requests:
        decision = _one(request, stock, available, active, now_ms)
        if decision is Decision.RESERVED:
            available -= request.quantity
            version += 1
            active.add(request.user_id)
        decided.append(Decided(request, decision, version))
    return decided


def _one(
    request: PurchaseRequested, stock: StockNow | None, available: int, active: Collection[str], now_ms: int
) -> Decision:
    if stock is None or not 0 < request.quantity <= MOST_UNITS:
        return Decision.INVALID
    if now_ms > request.deadline_ms:
        return Decision.TOO_LATE
    if not stock.sale_open:
        return Decision.CLOSED
    if request.quantity > stock.cap:
        return Decision.LIMIT_REACHED
    if request.user_id in active:
        return Decision.DUPLICATE
    if available < request.quantity:
        return Decision.SOLD_OUT
    return Decision.RESERVED


def granted(decided: Sequence[Decided]) -> dict[UUID, int]:
    """Units by request, in order."""
    return {each.request.request_id: each.request.quantity for each in decided if each.decision is Decision.RESERVED}
