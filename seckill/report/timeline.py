"""Machine: one purchase as a timeline: a function for each kind of step turns plain values into a `TimelineStep`.

The report (with `seckill report trace`) and the console's trace page read their rows from different places and call the
same functions, so a purchase is described in the same words everywhere. Sort the steps with `merge_steps`.

Steps that the page shows are each a `Sentence`, because the page translates them.
"""

from __future__ import annotations

import time
from collections.abc import Iterable
from enum import IntEnum
from itertools import chain
from typing import NamedTuple

from seckill.messaging.record_position import RecordPosition


class Stage(IntEnum):
    """The order of steps that happened in the same millisecond."""

    CLIENT = 0
    REQUEST = 1
    DECISION = 2
    LEDGER = 3
    DECISION_EVENT = 4
    ORDER = 5
    CHANGE = 6
    ORDER_EVENT = 7
    MESSAGE = 8
    SHOWN = 9


class Sentence(str):
    """A text that keeps its template and facts, so that it can also be written in another language. A fact may be a
    sentence, too."""

    template: str
    facts: dict[str, object]

    def __new__(cls, template: str, **facts: object) -> Sentence:
        sentence = super().__new__(cls, template.format(**facts))
        sentence.template, sentence.facts = template, facts
        return sentence


class TimelineStep(NamedTuple):
    at_ms: int
    rank: Stage
    where: str
    what: str
    transaction: str = ""  # id of the database transaction that wrote the step, where it is known


def merge_steps(*parts: Iterable[TimelineStep]) -> list[TimelineStep]:
    """All steps in order of time, then of stage."""
    return sorted(chain.from_iterable(parts))


def clock_text(at_ms: int) -> str:
    """The time of day in UTC, with milliseconds."""
    return time.strftime("%H:%M:%S", time.gmtime(at_ms / 1000)) + f".{at_ms % 1000:03d}"


# ── client ───────────────────────────────────────────────────────────────────────────────────────


def purchase_sent(at_ms: int, user_id: str, quantity: int, key: str, status: int, took_ms: int) -> TimelineStep:
    answer = f"answered {status}" if status else "no answer"
    return TimelineStep(
        at_ms, Stage.CLIENT, "client", f"{user_id} requests {_units(quantity)}, key {key}: {answer} after {took_ms} ms"
    )


def state_seen(at_ms: int, user_id: str, state: str) -> TimelineStep:
    return TimelineStep(at_ms, Stage.SHOWN, "client", f"{user_id} sees {state}")


# ── request and decision ─────────────────────────────────────────────────────────────────────────


def request_admitted(
    at_ms: int, request_id: object, user_id: str, quantity: int, sku: str, sale_id: int
) -> TimelineStep:
    what = Sentence("admitted {request}", request=_request(request_id, user_id, quantity, sku, sale_id))
    return TimelineStep(at_ms, Stage.REQUEST, "gateway", what)


def request_logged(
    at_ms: int, position: RecordPosition, request_id: object, user_id: str, quantity: int, sku: str, sale_id: int
) -> TimelineStep:
    what = _request(request_id, user_id, quantity, sku, sale_id)
    return TimelineStep(at_ms, Stage.REQUEST, str(position), what)


def request_dead_lettered(
    at_ms: int, group: str, state: str, reason: str, where: str = "dead letters", transaction: str = ""
) -> TimelineStep:
    what = Sentence("dead letter of {group} ({state}): {reason}", group=group, state=state, reason=reason)
    return TimelineStep(at_ms, Stage.DECISION, where, what, transaction)


def request_decided(
    at_ms: int, decision: str, request_id: object, stock_version: int, where: str = "decision", transaction: str = ""
) -> TimelineStep:
    what = Sentence(
        "request {request} decided {decision} at stock version {version}",
        request=request_id, decision=decision, version=stock_version,
    )  # fmt: skip
    return TimelineStep(at_ms, Stage.DECISION, where, what, transaction)


def ledger_entry_posted(
    at_ms: int, version: int, kind: str, units: int, debit: str, credit: str, transaction: str = ""
) -> TimelineStep:
    what = Sentence(
        "version {version}: {kind} {units} from {debit} to {credit}",
        version=version, kind=kind, units=_units(units), debit=debit, credit=credit,
    )  # fmt: skip
    return TimelineStep(at_ms, Stage.LEDGER, "ledger", what, transaction)


def decision_published(at_ms: int, position: RecordPosition, decision: str, request_id: object) -> TimelineStep:
    return TimelineStep(at_ms, Stage.DECISION_EVENT, str(position), f"{decision} published for request {request_id}")


# ── order and money ──────────────────────────────────────────────────────────────────────────────


def order_placed(at_ms: int, order_id: object, request_id: object, quantity: int, amount: int) -> TimelineStep:
    what = Sentence(
        "order {order} for request {request}: {units}, {amount:,} to pay",
        order=order_id, request=request_id, units=_units(quantity), amount=amount,
    )  # fmt: skip
    return TimelineStep(at_ms, Stage.ORDER, "order", what)


def order_changed(at_ms: int, before: str, after: str, transaction: str = "") -> TimelineStep:
    what = Sentence("{before} → {after}", before=before or Sentence("new"), after=after)
    return TimelineStep(at_ms, Stage.CHANGE, "order", what, transaction)


def order_event_published(at_ms: int, position: RecordPosition, event: str, order_id: object) -> TimelineStep:
    return TimelineStep(at_ms, Stage.ORDER_EVENT, str(position), f"{event} published for order {order_id}")


def payment_opened(at_ms: int, payment_id: object, amount: int, state: str = "") -> TimelineStep:
    what = Sentence("payment {payment} of {amount:,} opened", payment=payment_id, amount=amount)
    return TimelineStep(at_ms, Stage.CHANGE, "payment", f"{what}, now {state}" if state else what)


def payment_captured(at_ms: int, amount: int, is_late: bool, transaction: str = "") -> TimelineStep:
    if is_late:
        what = Sentence("{amount:,} captured after the order had ended", amount=amount)
    else:
        what = Sentence("{amount:,} captured", amount=amount)
    return TimelineStep(at_ms, Stage.CHANGE, "payment", what, transaction)


def payment_refunded(at_ms: int, amount: int, transaction: str = "") -> TimelineStep:
    return TimelineStep(
        at_ms, Stage.ORDER_EVENT, "payment", Sentence("{amount:,} refunded", amount=amount), transaction
    )


def provider_logged(at_ms: int, what: str, amount: int) -> TimelineStep:
    return TimelineStep(at_ms, Stage.CHANGE, "provider", f"{what} {amount:,}")


# ── messages and what the buyer is shown ─────────────────────────────────────────────────────────


def message_delivered(at_ms: int, channel: str, subject: str, attempts: int, transaction: str = "") -> TimelineStep:
    """`subject`: the text of the message, or the event that it is about."""
    tried = Sentence("1 attempt") if attempts == 1 else Sentence("{n} attempts", n=attempts)
    what = Sentence("{channel} delivered after {tried}: {subject}", channel=channel, tried=tried, subject=subject)
    return TimelineStep(at_ms, Stage.MESSAGE, "delivery", what, transaction)


def message_received(at_ms: int, what: str, channel: str, event: str, trace_id: str = "") -> TimelineStep:
    trace = f", trace {trace_id}" if trace_id else ""
    return TimelineStep(at_ms, Stage.MESSAGE, "sink", f"{what}: {channel} about {event}{trace}")


def outcome_shown(at_ms: int, state: str, may_buy_again: bool, transaction: str = "") -> TimelineStep:
    if may_buy_again:
        what = Sentence("the buyer is shown {state}, may buy again", state=state)
    else:
        what = Sentence("the buyer is shown {state}", state=state)
    return TimelineStep(at_ms, Stage.SHOWN, "shown", what, transaction)


def _request(request_id: object, user_id: str, quantity: int, sku: str, sale_id: int) -> Sentence:
    return Sentence(
        "request {request} by {user}: {quantity} × {sku} in sale {sale}",
        request=request_id, user=user_id, quantity=quantity, sku=sku, sale=sale_id,
    )  # fmt: skip


def _units(quantity: int) -> Sentence:
    return Sentence("1 unit") if quantity == 1 else Sentence("{n} units", n=quantity)
