"""Corruptions of the books: stock, ledger, holds, orders, money."""

from __future__ import annotations

from dataclasses import replace

from seckill.consistency.evidence import Evidence
from seckill.consistency.rows import Entry, Gate, Hold, Order, Payment, ProviderLine
from seckill.consistency.selftest.spoiling import corruption, first, instead, last, stranger, without


def _reserve(evidence: Evidence) -> Entry:
    return first(evidence.ledger, lambda entry: entry.kind == "reserve")


def _paid(evidence: Evidence) -> Order:
    return first(evidence.orders, lambda order: order.state == "PAID" and order.amount > 0)


def _captured(evidence: Evidence) -> Payment:
    return first(evidence.payments, lambda payment: payment.was_captured and not payment.was_refunded)


def _active(evidence: Evidence) -> Hold:
    return first(evidence.holds, lambda hold: hold.is_active)


@corruption("I1", "more is reserved than there is, entry for entry in order")
def oversold(evidence: Evidence) -> Evidence:
    stock = first(evidence.stocks)
    more = Entry(
        stock.id, stock.version + 1, "available", "reserved", stock.available + 1, "reserve", stranger(), stranger(), 0
    )
    return replace(evidence, ledger=[*evidence.ledger, more])


@corruption("I1", "holds have more units than were ever supplied")
def overheld(evidence: Evidence) -> Evidence:
    hold = _active(evidence)
    stock = first(evidence.stocks, lambda stock: stock.id == hold.stock_id)
    return replace(
        evidence, holds=instead(evidence.holds, hold, hold._replace(quantity=hold.quantity + 10 * stock.declared))
    )


@corruption("I2", "an entry is torn out of the ledger")
def entry_gone(evidence: Evidence) -> Evidence:
    return replace(evidence, ledger=without(evidence.ledger, _reserve(evidence)))


@corruption("I2", "50 units added to the stock row by hand")
def row_raised(evidence: Evidence) -> Evidence:
    stock = first(evidence.stocks)
    return replace(evidence, stocks=instead(evidence.stocks, stock, stock._replace(available=stock.available + 50)))


@corruption("I2", "the declared stock is changed afterwards")
def declared_changed(evidence: Evidence) -> Evidence:
    stock = first(evidence.stocks)
    return replace(evidence, stocks=instead(evidence.stocks, stock, stock._replace(declared=stock.declared + 1)))


@corruption("I2", "an entry moves units between accounts that its kind may not touch")
def entry_bent(evidence: Evidence) -> Evidence:
    entry = _reserve(evidence)
    return replace(evidence, ledger=instead(evidence.ledger, entry, entry._replace(credit="sold")))


@corruption("I2", "two entries have one cause")
def cause_twice(evidence: Evidence) -> Evidence:
    one = _reserve(evidence)
    other = last(evidence.ledger, lambda entry: entry.kind == "reserve" and entry.cause != one.cause)
    return replace(evidence, ledger=instead(evidence.ledger, other, other._replace(cause=one.cause)))


@corruption("I3", "an order is lost")
def order_gone(evidence: Evidence) -> Evidence:
    return replace(evidence, orders=without(evidence.orders, _paid(evidence)))


@corruption("I3", "an order that nobody reserved for")
def order_invented(evidence: Evidence) -> Evidence:
    return replace(
        evidence, orders=[*evidence.orders, _paid(evidence)._replace(id=stranger(1), request_id=stranger(2))]
    )


@corruption("I3", "an order ends, and its units stay where they were")
def units_stranded(evidence: Evidence) -> Evidence:
    order = _paid(evidence)
    return replace(evidence, orders=instead(evidence.orders, order, order._replace(state="EXPIRED")))


@corruption("I4", "the gate forgets a holder")
def gate_forgets(evidence: Evidence) -> Evidence:
    gate = first(evidence.gates, lambda gate: bool(gate.granted))
    granted = dict(list(gate.granted.items())[1:])
    return replace(evidence, gates=instead(evidence.gates, gate, gate._replace(granted=granted)))


@corruption("I4", "another buyer stands in the gate, in a holder's place: the counts agree")
def gate_mistakes(evidence: Evidence) -> Evidence:
    gate = first(evidence.gates, lambda gate: bool(gate.granted))
    granted = {**dict(list(gate.granted.items())[1:]), stranger(): 1}
    return replace(evidence, gates=instead(evidence.gates, gate, Gate(gate.stock_id, gate.free, granted)))


@corruption("I5", "units are left while those who wanted them were sent away")
def undersold(evidence: Evidence) -> Evidence:
    refused = first(evidence.decided, lambda row: row.decision == "SOLD_OUT")
    stock = first(evidence.stocks, lambda stock: (stock.sale_id, stock.sku) == (refused.sale_id, refused.sku))
    left = stock._replace(available=stock.available + stock.declared)
    return replace(evidence, stocks=instead(evidence.stocks, stock, left))


@corruption("I12", "a second active purchase of one user")
def second_hold(evidence: Evidence) -> Evidence:
    return replace(evidence, holds=[*evidence.holds, _active(evidence)._replace(request_id=stranger())])


@corruption("I12", "two purchases of one user were active at once, and one has ended since")
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
    return replace(evidence, holds=instead(evidence.holds, other, ended), ledger=ledger)


@corruption("I15", "units are released twice")
def released_twice(evidence: Evidence) -> Evidence:
    entry = first(evidence.ledger, lambda entry: entry.kind == "release")
    again = entry._replace(version=first(evidence.stocks).version + 1, cause=stranger())
    return replace(evidence, ledger=[*evidence.ledger, again])


@corruption("I15", "units are paid for and released")
def sold_and_released(evidence: Evidence) -> Evidence:
    entry = first(evidence.ledger, lambda entry: entry.kind == "sell")
    again = entry._replace(
        version=first(evidence.stocks).version + 1, kind="release", debit="reserved", credit="available"
    )
    return replace(evidence, ledger=[*evidence.ledger, again])


@corruption("I20", "an order waits for payment for ever")
def never_expired(evidence: Evidence) -> Evidence:
    order = first(evidence.orders)
    waiting = order._replace(state="PENDING_PAYMENT", pay_before_ms=evidence.taken_at_ms - 10 * 60 * 1000)
    return replace(evidence, orders=instead(evidence.orders, order, waiting))


def _line(evidence: Evidence, what: str) -> ProviderLine:
    payment = _captured(evidence)
    return first(evidence.provider, lambda line: line.payment_id == payment.id and line.what == what)


@corruption("I14", "we say captured, the provider knows nothing of it")
def capture_invented(evidence: Evidence) -> Evidence:
    return replace(evidence, provider=without(evidence.provider, _line(evidence, "captured")))


@corruption("I14", "the provider took money that we know nothing of")
def capture_orphaned(evidence: Evidence) -> Evidence:
    line = _line(evidence, "captured")._replace(payment_id=stranger())
    return replace(evidence, provider=[*evidence.provider, line])


@corruption("I14", "an orphan is known, and its money did not go back")
def orphan_kept(evidence: Evidence) -> Evidence:
    line = _line(evidence, "captured")._replace(payment_id=stranger())
    return replace(evidence, provider=[*evidence.provider, line], orphans=[line.payment_id])


@corruption("I14", "a paid order's money was given back")
def refunded_and_paid(evidence: Evidence) -> Evidence:
    return replace(evidence, provider=[*evidence.provider, _line(evidence, "captured")._replace(what="refunded")])


@corruption("I14", "the provider took another amount")
def amount_changed(evidence: Evidence) -> Evidence:
    line = _line(evidence, "captured")
    return replace(evidence, provider=instead(evidence.provider, line, line._replace(amount=line.amount + 1)))


@corruption("I14", "an ended order keeps the buyer's money")
def money_kept(evidence: Evidence) -> Evidence:
    order = first(evidence.orders, lambda order: order.id == _captured(evidence).order_id)
    return replace(evidence, orders=instead(evidence.orders, order, order._replace(state="CANCELLED")))
