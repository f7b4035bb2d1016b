"""Frames: a record's bytes become one flat row, readable or not; nothing here fails because of what a record says.

`events` keeps a row for every record. `fault` says why one cannot be read (then its other columns mean nothing);
`kind` is the decision of a decision, else the type of the event. The rules are those of the publishers' `events.py`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from gateway import events as gateway
from inventory import events as inventory
from orders import events as orders
from seckill.topics import INVENTORY_DECISIONS, ORDER_EVENTS, QUEUES

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

SAID: Final = (
    "event_id string, type string, version int, body struct<request_id: string, user_id: string, sale_id: bigint, "
    "sku: string, quantity: bigint, decision: string, amount: bigint, admitted_at_ms: bigint, decided_at_ms: bigint, "
    "at_ms: bigint>"
)
"""What is read of a message; the rest of it is skipped without being kept."""

REQUESTED: Final = gateway.PURCHASE_REQUESTED
DECISIONS: Final = tuple(each.value for each in inventory.Decision)
RELEASED: Final = inventory.RELEASED
ORDERS: Final = tuple(each.value for each in orders.OrderEvent)
PLACED, PAID, REFUNDED = (
    each.value for each in (orders.OrderEvent.PLACED, orders.OrderEvent.PAID, orders.OrderEvent.REFUNDED)
)
TYPES: Final = {
    **dict.fromkeys(QUEUES, ((gateway.PURCHASE_REQUESTED,), gateway.VERSION)),
    INVENTORY_DECISIONS.name: ((inventory.DECIDED, inventory.RELEASED), inventory.VERSION),
    ORDER_EVENTS.name: (ORDERS, orders.VERSION),
}
"""Which types a topic holds, and the newest version that is known of them."""

COLUMNS: Final = (
    "topic", "partition", "offset", "log_ms", "read_at", "event_id", "fault",
    "kind", "request_id", "user_id", "sale_id", "sku", "quantity", "amount", "at_ms",
)  # fmt: skip
LATE_MS: Final = 60_000
"""An event that came into the log so long after it happened was late. It is counted like any other, and as late."""

MOST_UNITS, MOST_MONEY, MOST_MS = 10**9, 10**15, 10**14
"""Beyond these a number is a mistake, and adding such up would overflow."""


def events(records: DataFrame) -> DataFrame:
    from pyspark.sql import functions as f

    place = [f.col(name) for name in ("topic", "partition", "offset", "log_ms", "read_at")]
    parsed = records.select(
        *place, f.col("value").isNull().alias("empty"), f.from_json(f.col("value").cast("string"), SAID).alias("said")
    )
    judged = parsed.select(*place, "said", _fault().alias("fault"))  # by itself: it is used twice, and long
    said, body = f.col("said"), f.col("said.body")
    at_ms = f.coalesce(body.admitted_at_ms, body.decided_at_ms, body.at_ms, f.col("log_ms"))
    own_place = f.concat_ws("@", f.concat_ws("-", "topic", "partition"), "offset")
    return judged.select(
        *place,
        f.when(f.col("fault").isNull(), said.event_id).otherwise(own_place).alias("event_id"),
        "fault",
        f.coalesce(body.decision, said.type).alias("kind"),
        *(body[name].alias(name) for name in ("request_id", "user_id", "sale_id", "sku", "quantity")),
        f.coalesce(body.amount, f.lit(0)).alias("amount"),
        at_ms.alias("at_ms"),
    )


def _fault() -> Column:
    """Why it cannot be read; null if it can."""
    from pyspark.sql import functions as f

    said, body = f.col("said"), f.col("said.body")
    known, newest = f.lit(False), f.lit(0)
    for topic, (types, version) in TYPES.items():
        here = f.col("topic") == topic
        known = known | (here & said.type.isin(*types))
        newest = f.when(here, f.lit(version)).otherwise(newest)
    is_request, is_decision = said.type == REQUESTED, said.type == inventory.DECIDED
    unnamed = (f.length(said.event_id) != 36) | (f.length(body.request_id) != 36)
    lacks = f.lit(False)
    for name in ("request_id", "user_id", "sale_id", "sku", "quantity"):
        lacks = lacks | body[name].isNull()
    lacks = (
        lacks
        | (is_request & body.admitted_at_ms.isNull())
        | (is_decision & (body.decided_at_ms.isNull() | ~f.coalesce(body.decision, f.lit("")).isin(*DECISIONS)))
        | (said.type.isin(*ORDERS) & (body.at_ms.isNull() | body.amount.isNull()))
    )
    odd = ~body.quantity.between(0, MOST_UNITS) | (f.abs(f.coalesce(body.amount, f.lit(0))) > MOST_MONEY)
    for name in ("admitted_at_ms", "decided_at_ms", "at_ms"):
        odd = odd | ~f.coalesce(body[name].between(0, MOST_MS), f.lit(True))
    for name, most in (("user_id", 200), ("sku", 100)):
        odd = odd | (f.length(body[name]) == 0) | (f.length(body[name]) > most) | body[name].contains("\0")
    return (
        f.when(f.col("empty"), "no value")
        .when(said.event_id.isNull() | said.type.isNull() | said.version.isNull() | body.isNull(), "no envelope")
        .when(~known, "unknown type")
        .when((said.version > newest) | (said.version < 1), "unknown version")
        .when(lacks | unnamed, "incomplete body")
        .when(f.coalesce(odd, f.lit(False)), "impossible value")
        .when(is_request & (said.event_id != body.request_id), "the event id is not the request id")
    )
