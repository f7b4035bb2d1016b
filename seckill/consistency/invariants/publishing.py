"""Publishing: what the tables say was done is what the topics say, event by event and field by field."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator
from typing import NamedTuple

from seckill.consistency.evidence import Evidence
from seckill.consistency.identity import Id
from seckill.consistency.rows import Decided, DecisionSaid, Entry, OrderSaid, Place
from seckill.consistency.verdicts import Found, Subject

RELEASED, LATE_REFUND = "UnitsReleased", "LatePaymentRefunded"
EVENT_OF = {
    "PENDING_PAYMENT": "OrderPlaced",
    "PAID": "OrderPaid",
    "EXPIRED": "OrderExpired",
    "CANCELLED": "OrderCancelled",
    "REFUNDED": "OrderRefunded",
    "NOT_PLACED": "OrderNotPlaced",
}
"""What is published when an order comes into a state."""
REASONS = {
    "OrderExpired": ("release", "expired"),
    "OrderCancelled": ("release", "cancelled"),
    "OrderNotPlaced": ("release", "not placed"),
    "OrderRefunded": ("return", "refunded"),
}
"""Of an order event: the ledger entry that gives units back, and the reason that is published."""
ROUNDED_MS = 1
"""A time in a message is cut to milliseconds, one in a table is rounded."""


class Field(NamedTuple):
    """One field of a message beside the same of its row; None where a source did not say."""

    name: str
    said: object
    row: object

    @property
    def differs(self) -> bool:
        if self.said is None or self.row is None or self.said == self.row:
            return False
        if self.name.endswith("_ms") and isinstance(self.said, int) and isinstance(self.row, int):
            return abs(self.said - self.row) > ROUNDED_MS
        return True


def published_as_written(evidence: Evidence, found: Found) -> None:
    """I26. Each decision, each change of an order, each late refund and each return of units has its event in the
    topic, and each event its row; both have the same contents; a buyer may buy again exactly if his units are back."""
    _decisions(evidence, found)
    _changes(evidence, found)
    _late_refunds(evidence, found)
    _releases(evidence, found)
    _settled(evidence, found)
    _may_buy_again(evidence, found)


def _decisions(evidence: Evidence, found: Found) -> None:
    first: dict[Id, DecisionSaid] = {}
    for said in evidence.decisions_said:
        found.looked_at += 1
        known = first.setdefault(said.event_id, said)
        if known[2:] != said[2:]:
            found.say_wrong("one decision event is published with two contents", Subject(said.request_id))
        row = evidence.decision_of.get(said.request_id)
        if said.decision == RELEASED or row is None or _is_same(said, row):
            continue
        fields = (
            Field("user", said.user_id, row.user_id), Field("sale", said.sale_id, row.sale_id),
            Field("article", _known(said.sku, said.sale_id), row.sku), Field("quantity", said.quantity, row.quantity),
            Field("stock version", said.stock_version, row.stock_version),
            Field("decided_at_ms", said.decided_at_ms, row.decided_at_ms), Field("cause", said.cause, row.request_id),
            Field("origin", said.origin, None if evidence.was_examined(row.request_id) else row.place),
        )  # fmt: skip
        _compare(found, f"the decision {row.decision}", fields, Subject(said.request_id))
    for read in evidence.decisions_read:
        found.looked_at += 1
        event = first.get(read.event_id)
        if event is None:
            found.say_missing("orders have read a decision that is not in the topic", Subject(read.request_id))
        elif (event.request_id, event.decision) != (read.request_id, read.decision):
            found.say_wrong(
                f"orders have read {read.decision}, and {event.decision} was said", Subject(read.request_id)
            )


def _is_same(said: DecisionSaid, row: Decided) -> bool:
    """In nearly all cases, and without a word for each field."""
    return (
        said.user_id, said.sale_id, said.sku, said.quantity, said.stock_version, said.decided_at_ms, said.cause,
        said.origin,
    ) == (
        row.user_id, row.sale_id, row.sku, row.quantity, row.stock_version, row.decided_at_ms, row.request_id,
        row.place,
    )  # fmt: skip


def _changes(evidence: Evidence, found: Found) -> None:
    first: dict[Id, OrderSaid] = {}
    for said in evidence.orders_said:
        known = first.setdefault(said.event_id, said)
        first[said.event_id] = min(known, said, key=lambda each: each.place)
        if known[2:] != said[2:]:
            found.say_wrong("one order event is published with two contents", Subject(said.request_id, said.order_id))
    changes = {change.event_id: change for change in evidence.transitions}
    last: dict[Id, OrderSaid] = {}
    for change in evidence.transitions:
        found.looked_at += 1
        event, subject = first.get(change.event_id), Subject(order_id=change.order_id)
        name = EVENT_OF.get(change.after, "")
        if event is None:
            found.say_missing(f"the order became {change.after}, and that is not published", subject)
        elif (event.event, event.order_id) != (name, change.order_id):
            found.say_wrong(f"the order became {change.after}, and {event.event} is published", subject)
        elif _is_before(event, last.setdefault(change.order_id, event)):
            found.say_wrong(f"{name} stands before {last[change.order_id].event}, which came first", subject)
        elif Field("at_ms", event.at_ms, change.at_ms).differs:
            found.say_wrong(f"{name} happened at {change.at_ms}, and {event.at_ms} is published", subject)
        if event is not None:
            last[change.order_id] = event
    for event in first.values():
        found.looked_at += 1
        subject = Subject(event.request_id, event.order_id)
        if event.event_id not in changes and event.event != LATE_REFUND:
            found.say_missing(f"{event.event} is published, and no order changed", subject)
        order = evidence.order_by_id.get(event.order_id)
        if order is None:
            found.say_missing(f"{event.event} of an order that does not exist", subject)
            continue
        fields = (
            Field("request", event.request_id, order.request_id), Field("user", event.user_id, order.user_id),
            Field("sale", event.sale_id, order.sale_id),
            Field("article", _known(event.sku, event.sale_id), _known(order.sku, order.cause)),
            Field("quantity", event.quantity, order.quantity),
            Field("pay_before_ms", event.pay_before_ms, order.pay_before_ms), Field("cause", event.cause, order.cause),
            Field("origin", event.origin, order.origin),
        )  # fmt: skip
        _compare(found, event.event, fields, subject)
        if event.returned_units and (event.event != "OrderRefunded" or event.returned_units != order.quantity):
            found.say_wrong(f"{event.event} returns {event.returned_units} of {order.quantity} units", subject)


def _is_before(event: OrderSaid, other: OrderSaid) -> bool:
    return event.place.partition == other.place.partition and event.place.offset < other.place.offset


def _late_refunds(evidence: Evidence, found: Found) -> None:
    """One event for each late payment whose money is back."""
    said: dict[Id, set[Id]] = defaultdict(set)
    for event in evidence.orders_said:
        if event.event == LATE_REFUND:
            said[event.order_id].add(event.event_id)
    owed = Counter(payment.order_id for payment in evidence.payments if payment.late and payment.was_refunded)
    for order in owed.keys() | said.keys():
        found.looked_at += 1
        if owed[order] > len(said[order]):
            found.say_missing("a late payment went back, and that is not published", Subject(order_id=order))
        elif owed[order] < len(said[order]):
            found.say_missing("a late refund is published, and no late payment went back", Subject(order_id=order))


def _given_back(evidence: Evidence) -> Iterator[Entry]:
    return (entry for entry in evidence.ledger if entry.kind in ("release", "return"))


def _releases(evidence: Evidence, found: Found) -> None:
    """UnitsReleased beside the ledger entries that give units back, by request."""
    said: dict[Id, DecisionSaid] = {}
    for each in evidence.decisions_said:
        if each.decision == RELEASED:
            said.setdefault(each.request_id, each)
    stocks = {stock.id: stock for stock in evidence.stocks}
    holds = {hold.request_id: hold for hold in evidence.holds}
    kinds = {event.event_id: event.event for event in evidence.orders_said}
    entries: dict[Id, Entry] = {}
    for entry in _given_back(evidence):
        found.looked_at += 1
        if entry.request_id is None:
            continue
        entries[entry.request_id] = entry
        subject = Subject(entry.request_id)
        event = said.get(entry.request_id)
        if event is None:
            found.say_missing("its units are back, and that is not published", subject)
            continue
        stock, hold = stocks.get(entry.stock_id), holds.get(entry.request_id)
        kind, reason = REASONS.get(kinds.get(entry.cause, ""), (entry.kind, None))
        if kind != entry.kind:
            found.say_wrong(f"a {entry.kind} in the ledger, caused by {kinds[entry.cause]}", subject)
        fields = (
            Field("cause", event.cause, entry.cause), Field("stock version", event.stock_version, entry.version),
            Field("quantity", event.quantity, entry.units),
            Field("reason", _known(event.reason, event.stock_version), reason),
            Field("sale", event.sale_id, stock and stock.sale_id),
            Field("article", _known(event.sku, event.sale_id), stock and stock.sku),
            Field("user", event.user_id, hold and hold.user_id), Field("origin", event.origin, hold and hold.origin),
        )  # fmt: skip
        _compare(found, RELEASED, fields, subject)
    for request in said.keys() - entries.keys():
        found.say_missing("its units are said to be back, and the ledger knows nothing of it", Subject(request))


def _settled(evidence: Evidence, found: Found) -> None:
    """What settlement has read is what was said, and it has posted what the ledger has."""
    events = {event.event_id: event for event in evidence.orders_said}
    posted = {entry.cause for entry in evidence.ledger if entry.kind in ("sell", "release", "return")}
    settled_for: dict[Id, Id] = {}
    for row in evidence.settled:
        found.looked_at += 1
        settled_for[row.event_id] = row.request_id
        event, subject = events.get(row.event_id), Subject(row.request_id)
        if event is None:
            found.say_missing(f"settlement has read {row.kind}, which is not in the topic", subject)
        elif (event.event, event.request_id) != (row.kind, row.request_id):
            found.say_wrong(f"settlement has read {row.kind}, and {event.event} was said", subject)
        if row.posted != (row.event_id in posted):
            done = "posted" if row.posted else "not posted"
            found.say_wrong(f"{row.kind} is called {done}, and the ledger says otherwise", subject)
    for entry in evidence.ledger:
        if entry.kind == "reserve" and entry.cause != entry.request_id:
            found.say_wrong("a reservation whose cause is not its request", Subject(entry.request_id))
        elif entry.cause in settled_for and settled_for[entry.cause] != entry.request_id:
            found.say_wrong(
                f"a {entry.kind} in the ledger, caused by an event of another request", Subject(entry.request_id)
            )
        elif entry.kind in ("sell", "release", "return") and entry.cause not in settled_for:
            found.say_wrong(
                f"a {entry.kind} in the ledger, caused by nothing that settlement has read", Subject(entry.request_id)
            )


def _may_buy_again(evidence: Evidence, found: Found) -> None:
    back = {entry.request_id for entry in _given_back(evidence)}
    examined = {
        (letter.topic, letter.place.partition, letter.place.offset)
        for letter in evidence.dead
        if letter.group == "gateway.outcomes" and letter.state != "replayed"
    }
    unread = {
        said.request_id
        for said in evidence.decisions_said
        if said.decision == RELEASED and _at("inventory.decisions", said.place) in examined
    }
    for row in evidence.outcomes:
        found.looked_at += 1
        if row.may_buy_again and row.request_id not in back:
            found.say_wrong("may buy again, and the units are not back", Subject(row.request_id))
        elif row.may_buy_again is False and row.request_id in back and row.request_id not in unread:
            found.say_missing("the units are back, and the buyer may not buy again", Subject(row.request_id))


def _at(topic: str, place: Place) -> tuple[str, int, int]:
    return topic, place.partition, place.offset


def _known(text: str, beside: object) -> str | None:
    """Empty is known to be empty where the fields beside it are known."""
    return None if beside is None else text


def _compare(found: Found, what: str, fields: Iterable[Field], subject: Subject) -> None:
    for field in fields:
        if field.differs:
            found.say_wrong(f"{what}: its {field.name} is published as {field.said}, the row has {field.row}", subject)
