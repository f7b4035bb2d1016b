"""Corruptions of tables: stock, ledger, holds, orders, money."""

from __future__ import annotations

from dataclasses import replace

from seckill.report.evidence import Evidence
from seckill.report.rows import GateState, Hold, LedgerEntry, Order, Payment, ProviderLine
from seckill.report.selftest.corruptions import corruption, first, last, unknown_id, with_replaced, without_one


def _reserve(evidence: Evidence) -> LedgerEntry:
    return first(evidence.ledger, lambda entry: entry.kind == "reserve")


def _paid(evidence: Evidence) -> Order:
    return first(evidence.orders, lambda order: order.state == "PAID" and order.amount > 0)


def _captured(evidence: Evidence) -> Payment:
    return first(evidence.payments, lambda payment: payment.was_captured and not payment.was_refunded)


def _active(evidence: Evidence) -> Hold:
    return first(evidence.holds, lambda hold: hold.is_active)


@corruption("I1", "a valid ledger entry reserves more units than are available")
def oversold(evidence: Evidence) -> Evidence:
    stock = first(evidence.stocks)
    more = LedgerEntry(
        stock.id,
        stock.version + 1,
        "available",
        "reserved",
        stock.available + 1,
        "reserve",
        unknown_id(),
        unknown_id(),
        0,
    )
    return replace(evidence, ledger=[*evidence.ledger, more])


@corruption("I1", "a hold has more units than were ever supplied")
def overheld(evidence: Evidence) -> Evidence:
    hold = _active(evidence)
    stock = first(evidence.stocks, lambda stock: stock.id == hold.stock_id)
    return replace(
        evidence, holds=with_replaced(evidence.holds, hold, hold._replace(quantity=hold.quantity + 10 * stock.declared))
    )


@corruption("I2", "an entry is missing from the ledger")
def entry_gone(evidence: Evidence) -> Evidence:
    return replace(evidence, ledger=without_one(evidence.ledger, _reserve(evidence)))


@corruption("I2", "50 units are added to the stock row by hand")
def row_raised(evidence: Evidence) -> Evidence:
    stock = first(evidence.stocks)
    return replace(
        evidence, stocks=with_replaced(evidence.stocks, stock, stock._replace(available=stock.available + 50))
    )


@corruption("I2", "the declared stock is changed after the sale was created")
def declared_changed(evidence: Evidence) -> Evidence:
    stock = first(evidence.stocks)
    return replace(evidence, stocks=with_replaced(evidence.stocks, stock, stock._replace(declared=stock.declared + 1)))


@corruption("I2", "a ledger entry moves units between accounts that its kind does not allow")
def entry_bent(evidence: Evidence) -> Evidence:
    entry = _reserve(evidence)
    return replace(evidence, ledger=with_replaced(evidence.ledger, entry, entry._replace(credit="sold")))


@corruption("I2", "two ledger entries have the same cause")
def cause_twice(evidence: Evidence) -> Evidence:
    one = _reserve(evidence)
    other = last(evidence.ledger, lambda entry: entry.kind == "reserve" and entry.cause != one.cause)
    return replace(evidence, ledger=with_replaced(evidence.ledger, other, other._replace(cause=one.cause)))


@corruption("I3", "the order of a reservation is missing")
def order_gone(evidence: Evidence) -> Evidence:
    return replace(evidence, orders=without_one(evidence.orders, _paid(evidence)))


@corruption("I3", "an order has no reservation")
def order_invented(evidence: Evidence) -> Evidence:
    return replace(
        evidence, orders=[*evidence.orders, _paid(evidence)._replace(id=unknown_id(1), request_id=unknown_id(2))]
    )


@corruption("I3", "a paid order is marked as expired, but its units stay sold")
def units_stranded(evidence: Evidence) -> Evidence:
    order = _paid(evidence)
    return replace(evidence, orders=with_replaced(evidence.orders, order, order._replace(state="EXPIRED")))


@corruption("I4", "the gate forgets a holder")
def gate_forgets(evidence: Evidence) -> Evidence:
    gate = first(evidence.gates, lambda gate: bool(gate.granted))
    granted = dict(list(gate.granted.items())[1:])
    return replace(evidence, gates=with_replaced(evidence.gates, gate, gate._replace(granted=granted)))


@corruption("I4", "the gate has another request in the place of a holder, so the counts agree")
def gate_mistakes(evidence: Evidence) -> Evidence:
    gate = first(evidence.gates, lambda gate: bool(gate.granted))
    granted = {**dict(list(gate.granted.items())[1:]), unknown_id(): 1}
    return replace(evidence, gates=with_replaced(evidence.gates, gate, GateState(gate.stock_id, gate.free, granted)))


@corruption("I5", "units remain although requests were refused as sold out")
def undersold(evidence: Evidence) -> Evidence:
    refused = first(evidence.decisions, lambda row: row.decision == "SOLD_OUT")
    stock = first(evidence.stocks, lambda stock: (stock.sale_id, stock.sku) == (refused.sale_id, refused.sku))
    left = stock._replace(available=stock.available + stock.declared)
    return replace(evidence, stocks=with_replaced(evidence.stocks, stock, left))


@corruption("I12", "a user has a second active purchase")
def second_hold(evidence: Evidence) -> Evidence:
    return replace(evidence, holds=[*evidence.holds, _active(evidence)._replace(request_id=unknown_id())])


@corruption("I12", "two purchases of one user were active at the same time, and one has ended since")
def once_two(evidence: Evidence) -> Evidence:
    one = first(evidence.ledger, lambda entry: entry.kind == "reserve")
    other = first(evidence.holds, lambda hold: hold.stock_id == one.stock_id and hold.request_id != one.request_id)
    mine = first(evidence.holds, lambda hold: hold.request_id == one.request_id)
    ended = other._replace(user_id=mine.user_id, state="released")
    ledger = [
        entry
        for entry in evidence.ledger
        if entry.kind == "reserve" or entry.request_id not in (mine.request_id, other.request_id)
    ]
    return replace(evidence, holds=with_replaced(evidence.holds, other, ended), ledger=ledger)


@corruption("I15", "units are released twice")
def released_twice(evidence: Evidence) -> Evidence:
    entry = first(evidence.ledger, lambda entry: entry.kind == "release")
    again = entry._replace(version=first(evidence.stocks).version + 1, cause=unknown_id())
    return replace(evidence, ledger=[*evidence.ledger, again])


@corruption("I15", "units are paid for and released")
def sold_and_released(evidence: Evidence) -> Evidence:
    entry = first(evidence.ledger, lambda entry: entry.kind == "sell")
    again = entry._replace(
        version=first(evidence.stocks).version + 1, kind="release", debit="reserved", credit="available"
    )
    return replace(evidence, ledger=[*evidence.ledger, again])


@corruption("I20", "an order waits for payment long past its deadline")
def never_expired(evidence: Evidence) -> Evidence:
    order = first(evidence.orders)
    waiting = order._replace(state="PENDING_PAYMENT", pay_before_ms=evidence.taken_at_ms - 10 * 60 * 1000)
    return replace(evidence, orders=with_replaced(evidence.orders, order, waiting))


def _line(evidence: Evidence, what: str) -> ProviderLine:
    payment = _captured(evidence)
    return first(evidence.provider_lines, lambda line: line.payment_id == payment.id and line.what == what)


@corruption("I14", "a payment is captured, but the provider's log has no capture")
def capture_invented(evidence: Evidence) -> Evidence:
    return replace(evidence, provider_lines=without_one(evidence.provider_lines, _line(evidence, "captured")))


def _with_attempt(evidence: Evidence, state: str, *movements: str, late: bool = False) -> Evidence:
    """One more attempt to pay for an order that has ended, and what the provider says about it."""
    order = first(evidence.orders, lambda order: order.state in ("CANCELLED", "EXPIRED") and order.amount > 0)
    at_ms = order.placed_at_ms + 1
    attempt = Payment(unknown_id(), order.id, order.amount, state, False, False, at_ms, late)
    lines = [ProviderLine(at_ms, what, attempt.id, order.amount, order.id) for what in movements]
    return replace(evidence, payments=[*evidence.payments, attempt], provider_lines=[*evidence.provider_lines, *lines])


@corruption("I14", "a payment is voided here and still open at the provider")
def void_unknown_there(evidence: Evidence) -> Evidence:
    return _with_attempt(evidence, "voided", "opened")


@corruption("I33", "a payment stays open although its order has ended")
def left_open(evidence: Evidence) -> Evidence:
    return _with_attempt(evidence, "open", "opened")


@corruption("I33", "a payment counts as late although no money came")
def late_without_money(evidence: Evidence) -> Evidence:
    return _with_attempt(evidence, "voided", "opened", "voided", late=True)


@corruption("I14", "the provider captured a payment that we do not know")
def capture_orphaned(evidence: Evidence) -> Evidence:
    line = _line(evidence, "captured")._replace(payment_id=unknown_id())
    return replace(evidence, provider_lines=[*evidence.provider_lines, line])


@corruption("I14", "an orphan payment is known but not refunded")
def orphan_kept(evidence: Evidence) -> Evidence:
    line = _line(evidence, "captured")._replace(payment_id=unknown_id())
    return replace(evidence, provider_lines=[*evidence.provider_lines, line], orphan_payments=[line.payment_id])


@corruption("I14", "the money of a paid order was refunded")
def refunded_and_paid(evidence: Evidence) -> Evidence:
    return replace(
        evidence, provider_lines=[*evidence.provider_lines, _line(evidence, "captured")._replace(what="refunded")]
    )


@corruption("I14", "the provider captured another amount")
def amount_changed(evidence: Evidence) -> Evidence:
    line = _line(evidence, "captured")
    return replace(
        evidence, provider_lines=with_replaced(evidence.provider_lines, line, line._replace(amount=line.amount + 1))
    )


@corruption("I14", "the money of a cancelled order was kept")
def money_kept(evidence: Evidence) -> Evidence:
    order = first(evidence.orders, lambda order: order.id == _captured(evidence).order_id)
    return replace(evidence, orders=with_replaced(evidence.orders, order, order._replace(state="CANCELLED")))
