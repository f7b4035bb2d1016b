"""Codec: parse records into flat rows. No content of a record makes a job fail.

`parse_events` keeps one row per record. `fault` says why a record is unreadable; its other columns are meaningless
then. `kind` is the decision of a decision event and the type of any other event. The rules match the publishers'
`events.py`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from gateway import events as gateway
from inventory import events as inventory
from orders import events as orders
from seckill.messaging.topics import INVENTORY_DECISIONS, ORDER_EVENTS, REQUEST_TOPICS

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

MESSAGE_SCHEMA: Final = (
    "event_id string, type string, version int, body struct<request_id: string, user_id: string, sale_id: bigint, "
    "sku: string, quantity: bigint, decision: string, amount: bigint, admitted_at_ms: bigint, decided_at_ms: bigint, "
    "at_ms: bigint>"
)
"""The fields that are parsed; Spark skips all others."""

REQUESTED: Final = gateway.PURCHASE_REQUESTED
DECISIONS: Final = tuple(each.value for each in inventory.Decision)
RELEASED: Final = inventory.UNITS_RELEASED
ORDERS: Final = tuple(each.value for each in orders.OrderEvent)
PLACED, PAID, REFUNDED = (
    each.value for each in (orders.OrderEvent.PLACED, orders.OrderEvent.PAID, orders.OrderEvent.REFUNDED)
)
EVENT_TYPES: Final = {
    **dict.fromkeys(REQUEST_TOPICS, ((gateway.PURCHASE_REQUESTED,), gateway.VERSION)),
    INVENTORY_DECISIONS.name: ((inventory.PURCHASE_DECIDED, inventory.UNITS_RELEASED), inventory.VERSION),
    ORDER_EVENTS.name: (ORDERS, orders.VERSION),
}
"""The event types of each topic, and their newest known version."""

COLUMNS: Final = (
    "topic", "partition", "offset", "log_ms", "read_at", "event_id", "fault",
    "kind", "request_id", "user_id", "sale_id", "sku", "quantity", "amount", "at_ms",
)  # fmt: skip
LATE_MS: Final = 60_000
"""An event that reaches the log this long after it happened is late. It is counted like any other, and as late."""

UNITS_MAX, AMOUNT_MAX, MS_MAX = 10**9, 10**15, 10**14
"""Larger numbers are errors, and their sums might overflow."""


def parse_events(records: DataFrame) -> DataFrame:
    from pyspark.sql import functions as f

    place = [f.col(name) for name in ("topic", "partition", "offset", "log_ms", "read_at")]
    parsed = records.select(
        *place,
        f.col("value").isNull().alias("empty"),
        f.from_json(f.col("value").cast("string"), MESSAGE_SCHEMA).alias("message"),
    )
    judged = parsed.select(
        *place, "message", _fault().alias("fault")
    )  # computed once here, because the expression is long and used twice
    message, body = f.col("message"), f.col("message.body")
    at_ms = f.coalesce(body.admitted_at_ms, body.decided_at_ms, body.at_ms, f.col("log_ms"))
    own_place = f.concat_ws("@", f.concat_ws("-", "topic", "partition"), "offset")
    return judged.select(
        *place,
        f.when(f.col("fault").isNull(), message.event_id).otherwise(own_place).alias("event_id"),
        "fault",
        f.coalesce(body.decision, message.type).alias("kind"),
        *(body[name].alias(name) for name in ("request_id", "user_id", "sale_id", "sku", "quantity")),
        f.coalesce(body.amount, f.lit(0)).alias("amount"),
        at_ms.alias("at_ms"),
    )


def _fault() -> Column:
    """Why the record is unreadable, or null."""
    from pyspark.sql import functions as f

    message, body = f.col("message"), f.col("message.body")
    known, newest = f.lit(False), f.lit(0)
    for topic, (types, version) in EVENT_TYPES.items():
        here = f.col("topic") == topic
        known = known | (here & message.type.isin(*types))
        newest = f.when(here, f.lit(version)).otherwise(newest)
    is_request, is_decision = message.type == REQUESTED, message.type == inventory.PURCHASE_DECIDED
    unnamed = (f.length(message.event_id) != 36) | (f.length(body.request_id) != 36)
    lacks = f.lit(False)
    for name in ("request_id", "user_id", "sale_id", "sku", "quantity"):
        lacks = lacks | body[name].isNull()
    lacks = (
        lacks
        | (is_request & body.admitted_at_ms.isNull())
        | (is_decision & (body.decided_at_ms.isNull() | ~f.coalesce(body.decision, f.lit("")).isin(*DECISIONS)))
        | (message.type.isin(*ORDERS) & (body.at_ms.isNull() | body.amount.isNull()))
    )
    odd = ~body.quantity.between(0, UNITS_MAX) | (f.abs(f.coalesce(body.amount, f.lit(0))) > AMOUNT_MAX)
    for name in ("admitted_at_ms", "decided_at_ms", "at_ms"):
        odd = odd | ~f.coalesce(body[name].between(0, MS_MAX), f.lit(True))
    for name, most in (("user_id", 200), ("sku", 100)):
        odd = odd | (f.length(body[name]) == 0) | (f.length(body[name]) > most) | body[name].contains("\0")
    return (
        f.when(f.col("empty"), "no value")
        .when(
            message.event_id.isNull() | message.type.isNull() | message.version.isNull() | body.isNull(), "no envelope"
        )
        .when(~known, "unknown type")
        .when((message.version > newest) | (message.version < 1), "unknown version")
        .when(lacks | unnamed, "incomplete body")
        .when(f.coalesce(odd, f.lit(False)), "impossible value")
        .when(is_request & (message.event_id != body.request_id), "the event id differs from the request id")
    )
