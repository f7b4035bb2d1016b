"""Machine: one purchase as a timeline: a function for each kind of step turns plain values into a `TimelineStep`.

The report (with `seckill report trace`) and the console's trace page read their rows from different places and call the
same functions, so a purchase is described in the same words everywhere. Sort the steps with `merge_steps`.
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
    what = f"admitted {_request(request_id, user_id, quantity, sku, sale_id)}"
    return TimelineStep(at_ms, Stage.REQUEST, "gateway", what)


def request_logged(
    at_ms: int, position: RecordPosition, request_id: object, user_id: str, quantity: int, sku: str, sale_id: int
) -> TimelineStep:
    what = _request(request_id, user_id, quantity, sku, sale_id)
    return TimelineStep(at_ms, Stage.REQUEST, str(position), what)


def request_dead_lettered(
    at_ms: int, group: str, state: str, reason: str, where: str = "dead letters", transaction: str = ""
) -> TimelineStep:
    what = f"dead letter of {group} ({state}): {reason}"
    return TimelineStep(at_ms, Stage.DECISION, where, what, transaction)


def request_decided(
    at_ms: int, decision: str, request_id: object, stock_version: int, where: str = "decision", transaction: str = ""
) -> TimelineStep:
    what = f"request {request_id} decided {decision} at stock version {stock_version}"
    return TimelineStep(at_ms, Stage.DECISION, where, what, transaction)


def ledger_entry_posted(
    at_ms: int, version: int, kind: str, units: int, debit: str, credit: str, transaction: str = ""
) -> TimelineStep:
    what = f"version {version}: {kind} {_units(units)} from {debit} to {credit}"
    return TimelineStep(at_ms, Stage.LEDGER, "ledger", what, transaction)


def decision_published(at_ms: int, position: RecordPosition, decision: str, request_id: object) -> TimelineStep:
    return TimelineStep(at_ms, Stage.DECISION_EVENT, str(position), f"{decision} published for request {request_id}")


# ── order and money ──────────────────────────────────────────────────────────────────────────────


def order_placed(at_ms: int, order_id: object, request_id: object, quantity: int, amount: int) -> TimelineStep:
    what = f"order {order_id} for request {request_id}: {_units(quantity)}, {amount:,} to pay"
    return TimelineStep(at_ms, Stage.ORDER, "order", what)


def order_changed(at_ms: int, before: str, after: str, transaction: str = "") -> TimelineStep:
    return TimelineStep(at_ms, Stage.CHANGE, "order", f"{before or 'new'} → {after}", transaction)


def order_event_published(at_ms: int, position: RecordPosition, event: str, order_id: object) -> TimelineStep:
    return TimelineStep(at_ms, Stage.ORDER_EVENT, str(position), f"{event} published for order {order_id}")


def payment_opened(at_ms: int, payment_id: object, amount: int, state: str = "") -> TimelineStep:
    now = f", now {state}" if state else ""
    return TimelineStep(at_ms, Stage.CHANGE, "payment", f"payment {payment_id} of {amount:,} opened{now}")


def payment_captured(at_ms: int, amount: int, is_late: bool, transaction: str = "") -> TimelineStep:
    late = " after the order had ended" if is_late else ""
    return TimelineStep(at_ms, Stage.CHANGE, "payment", f"{amount:,} captured{late}", transaction)


def payment_refunded(at_ms: int, amount: int, transaction: str = "") -> TimelineStep:
    return TimelineStep(at_ms, Stage.ORDER_EVENT, "payment", f"{amount:,} refunded", transaction)


def provider_logged(at_ms: int, what: str, amount: int) -> TimelineStep:
    return TimelineStep(at_ms, Stage.CHANGE, "provider", f"{what} {amount:,}")


# ── messages and what the buyer is shown ─────────────────────────────────────────────────────────


def message_delivered(at_ms: int, channel: str, subject: str, attempts: int, transaction: str = "") -> TimelineStep:
    """`subject`: the text of the message, or the event that it is about."""
    what = f"{channel} delivered after {attempts} attempt{'s' * (attempts != 1)}: {subject}"
    return TimelineStep(at_ms, Stage.MESSAGE, "delivery", what, transaction)


def message_received(at_ms: int, what: str, channel: str, event: str, trace_id: str = "") -> TimelineStep:
    trace = f", trace {trace_id}" if trace_id else ""
    return TimelineStep(at_ms, Stage.MESSAGE, "sink", f"{what}: {channel} about {event}{trace}")


def outcome_shown(at_ms: int, state: str, may_buy_again: bool, transaction: str = "") -> TimelineStep:
    again = ", may buy again" if may_buy_again else ""
    return TimelineStep(at_ms, Stage.SHOWN, "shown", f"the buyer is shown {state}{again}", transaction)


def _request(request_id: object, user_id: str, quantity: int, sku: str, sale_id: int) -> str:
    return f"request {request_id} by {user_id}: {quantity} × {sku} in sale {sale_id}"


def _units(quantity: int) -> str:
    return f"{quantity} unit{'s' * (quantity != 1)}"
