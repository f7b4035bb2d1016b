"""Check operators: the tables show what the audit trail says they did."""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable, Iterator

from seckill.report.evidence import Evidence
from seckill.report.identity import Id, identity
from seckill.report.invariants.clocks import SKEW_MS
from seckill.report.rows import OperatorAction
from seckill.report.verdicts import Findings, Subject

STATES = {"sale open": "open", "sale pause": "paused", "sale close": "closed"}


def operator_actions_took_effect(evidence: Evidence, findings: Findings) -> None:
    """I32. The tables match the audit trail: every sale has the price, cap, stock and window of its creation and the
    state that the last operator action gave it, and every stock adjustment and refund is in both. Sales, adjustments
    and refunds that are older than the trail are not checked."""
    findings.checked += len(evidence.sales)
    done = [verb for verb in evidence.operator_actions if verb.result == "done"]
    if not evidence.operator_actions:
        return
    since_ms = min(verb.at_ms for verb in evidence.operator_actions)
    for what, verbs, rows in (
        ("sale created", _created(done), _sales(evidence, since_ms)),
        ("adjustment", _adjusted(done), _adjustments(evidence, since_ms)),
        ("refund", _refunded(done), _refunds(evidence, since_ms)),
    ):
        in_trail, in_tables = Counter(verbs), Counter(rows)
        for fact in in_trail.keys() | in_tables.keys():
            findings.checked += 1
            if in_trail[fact] > in_tables[fact]:
                findings.add_missing(
                    f"{what} {fact}: {in_trail[fact]} times in the audit trail, {in_tables[fact]} times in the tables"
                )
            elif in_trail[fact] < in_tables[fact]:
                findings.add_missing(
                    f"{what} {fact}: {in_tables[fact]} times in the tables, {in_trail[fact]} times in the audit trail"
                )
    _check_states(evidence, findings, done, since_ms)


def _created(verbs: list[OperatorAction]) -> Iterator[Hashable]:
    names = ("units", "unit_price", "cap", "opens_at_ms", "closes_at_ms")
    for verb in verbs:
        if verb.verb == "sale create":
            yield verb.target.rpartition(" ")[2], *(verb.arguments.get(name) for name in names)


def _sales(evidence: Evidence, since_ms: int) -> Iterator[Hashable]:
    sales = {sale.id: sale for sale in evidence.sales}
    for stock in evidence.stocks:
        sale, entries = sales.get(stock.sale_id), evidence.entries_by_stock.get(stock.id)
        if sale is not None and entries and entries[0].at_ms >= since_ms - SKEW_MS:
            yield (
                stock.sku.rpartition(" ")[2], stock.declared, stock.unit_price, stock.cap, sale.opens_at_ms,
                sale.closes_at_ms,
            )  # fmt: skip


def _adjusted(verbs: list[OperatorAction]) -> Iterator[Hashable]:
    return ((verb.target, verb.arguments.get("units")) for verb in verbs if verb.verb == "sale adjust")


def _adjustments(evidence: Evidence, since_ms: int) -> Iterator[Hashable]:
    stocks = {stock.id: f"sale {stock.sale_id} {stock.sku}" for stock in evidence.stocks}
    for entry in evidence.ledger:
        if entry.kind == "adjust" and entry.at_ms >= since_ms - SKEW_MS:
            yield stocks.get(entry.stock_id, ""), entry.units if entry.debit == "supply" else -entry.units


def _refunded(verbs: list[OperatorAction]) -> Iterator[Hashable]:
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
        event.order_id: bool(event.returned_units) for event in evidence.order_events if event.event == "OrderRefunded"
    }
    for change in evidence.transitions:
        if change.after == "REFUNDED" and change.at_ms >= since_ms - SKEW_MS:
            yield change.order_id, returned.get(change.order_id, False)


def _check_states(evidence: Evidence, findings: Findings, done: list[OperatorAction], since_ms: int) -> None:
    last: dict[str, str] = {}
    for verb in done:
        if verb.verb in STATES:
            last[verb.target] = STATES[verb.verb]
    made_ms = {
        stock.sale_id: evidence.entries_by_stock[stock.id][0].at_ms
        for stock in evidence.stocks
        if stock.id in evidence.entries_by_stock
    }
    for sale in evidence.sales:
        is_known = made_ms.get(sale.id, 0) >= since_ms - SKEW_MS
        state = last.get(f"sale {sale.id}", "open" if is_known else sale.state)
        if state != sale.state:
            findings.add_violation(f"sale {sale.id} is {sale.state}, but the last operator action left it {state}")
    sales = {sale.id for sale in evidence.sales}
    for target in last:
        number = target.removeprefix("sale ")
        if not number.isdecimal() or int(number) not in sales:
            findings.add_violation(f"the audit trail names {target}, which does not exist", Subject())
