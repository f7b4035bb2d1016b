"""Operators: what the audit trail says they did is what the books show."""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable, Iterator

from seckill.consistency.evidence import Evidence
from seckill.consistency.identity import Id, identity
from seckill.consistency.invariants.clocks import SKEW_MS
from seckill.consistency.rows import Verb
from seckill.consistency.verdicts import Found, Subject

STATES = {"sale open": "open", "sale pause": "paused", "sale close": "closed"}


def verbs_are_in_the_books(evidence: Evidence, found: Found) -> None:
    """I32. Each sale was created, has its price, cap, stock and window, and is in the state, as the audit trail says;
    each adjustment of stock and each refund is there and in the books. What is older than the trail is not asked."""
    found.looked_at += len(evidence.sales)
    done = [verb for verb in evidence.verbs if verb.result == "done"]
    if not evidence.verbs:
        return
    since_ms = min(verb.at_ms for verb in evidence.verbs)
    for what, verbs, books in (
        ("sale created", _created(done), _sales(evidence, since_ms)),
        ("adjustment", _adjusted(done), _adjustments(evidence, since_ms)),
        ("refund", _refunded(done), _refunds(evidence, since_ms)),
    ):
        said, there = Counter(verbs), Counter(books)
        for fact in said.keys() | there.keys():
            found.looked_at += 1
            if said[fact] > there[fact]:
                found.say_missing(f"{what} {fact}: {said[fact]} times in the trail, {there[fact]} in the books")
            elif said[fact] < there[fact]:
                found.say_missing(f"{what} {fact}: {there[fact]} times in the books, {said[fact]} in the trail")
    _states(evidence, found, done, since_ms)


def _created(verbs: list[Verb]) -> Iterator[Hashable]:
    names = ("units", "unit_price", "cap", "opens_at_ms", "closes_at_ms")
    for verb in verbs:
        if verb.verb == "sale create":
            yield verb.target.rpartition(" ")[2], *(verb.arguments.get(name) for name in names)


def _sales(evidence: Evidence, since_ms: int) -> Iterator[Hashable]:
    sales = {sale.id: sale for sale in evidence.sales}
    for stock in evidence.stocks:
        sale, entries = sales.get(stock.sale_id), evidence.entries.get(stock.id)
        if sale is not None and entries and entries[0].at_ms >= since_ms - SKEW_MS:
            yield (
                stock.sku.rpartition(" ")[2], stock.declared, stock.unit_price, stock.cap, sale.opens_at_ms,
                sale.closes_at_ms,
            )  # fmt: skip


def _adjusted(verbs: list[Verb]) -> Iterator[Hashable]:
    return ((verb.target, verb.arguments.get("units")) for verb in verbs if verb.verb == "sale adjust")


def _adjustments(evidence: Evidence, since_ms: int) -> Iterator[Hashable]:
    stocks = {stock.id: f"sale {stock.sale_id} {stock.sku}" for stock in evidence.stocks}
    for entry in evidence.ledger:
        if entry.kind == "adjust" and entry.at_ms >= since_ms - SKEW_MS:
            yield stocks.get(entry.stock_id, ""), entry.units if entry.debit == "supply" else -entry.units


def _refunded(verbs: list[Verb]) -> Iterator[Hashable]:
    for verb in verbs:
        if verb.verb == "refund":
            yield _order(verb.target), bool(verb.arguments.get("return_units"))


def _order(text: str) -> Id | str:
    try:
        return identity(text)
    except ValueError:
        return text


def _refunds(evidence: Evidence, since_ms: int) -> Iterator[Hashable]:
    returned = {
        event.order_id: bool(event.returned_units) for event in evidence.orders_said if event.event == "OrderRefunded"
    }
    for change in evidence.transitions:
        if change.after == "REFUNDED" and change.at_ms >= since_ms - SKEW_MS:
            yield change.order_id, returned.get(change.order_id, False)


def _states(evidence: Evidence, found: Found, done: list[Verb], since_ms: int) -> None:
    last: dict[str, str] = {}
    for verb in done:
        if verb.verb in STATES:
            last[verb.target] = STATES[verb.verb]
    made_ms = {
        stock.sale_id: evidence.entries[stock.id][0].at_ms for stock in evidence.stocks if stock.id in evidence.entries
    }
    for sale in evidence.sales:
        is_known = made_ms.get(sale.id, 0) >= since_ms - SKEW_MS
        state = last.get(f"sale {sale.id}", "open" if is_known else sale.state)
        if state != sale.state:
            found.say_wrong(f"sale {sale.id} is {sale.state}, and the operator left it {state}")
    sales = {sale.id for sale in evidence.sales}
    for target in last:
        number = target.removeprefix("sale ")
        if not number.isdecimal() or int(number) not in sales:
            found.say_wrong(f"the trail has {target}, which does not exist", Subject())
