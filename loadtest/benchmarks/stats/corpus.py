"""Shell: a synthetic sale of any size, which Spark writes into the topics.

Requests arrive over ten minutes. One in twenty gets a unit, has an order and pays; the others are sold out. Every
hundredth request is in its topic twice. Everything is computed from the number of requests, so the correct counts are
known.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from seckill.messaging.topics import INVENTORY_DECISIONS, ORDER_EVENTS, PURCHASE_REQUESTS

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, SparkSession

BEGAN_MS: Final = 1_700_000_000_000
LASTS_MS: Final = 600_000
SKUS: Final = 20
EACH_BUYER_ASKS: Final = 2
ONE_UNIT_FOR: Final = 20
TWICE: Final = 100


def records(requests: int) -> int:
    """The number of records in the topics, including duplicates."""
    granted = -(-requests // ONE_UNIT_FOR)
    return requests + -(-requests // TWICE) + requests + 2 * granted


def requests(records: int) -> int:
    """The number of requests that results in about this many records."""
    return max(1, round(records / (2 + 1 / TWICE + 2 / ONE_UNIT_FOR)))


def write(spark: SparkSession, bootstrap_servers: str, requests: int) -> None:
    from pyspark.sql import functions as f

    purchases = _purchases(spark, requests)
    again = purchases.where(f.col("id") % TWICE == 0)
    granted = purchases.where(f.col("id") % ONE_UNIT_FOR == 0)
    for topic, frame in (
        (
            PURCHASE_REQUESTS,
            _messages(purchases.unionAll(again), "PurchaseRequested", f.col("request_id"), _requested()),
        ),
        (INVENTORY_DECISIONS, _messages(purchases, "PurchaseDecided", _uuid("d"), _decided())),
        (ORDER_EVENTS, _messages(granted, "OrderPlaced", _uuid("o"), _ordered(40))),
        (ORDER_EVENTS, _messages(granted, "OrderPaid", _uuid("p"), _ordered(5_000))),
    ):
        writer = frame.write.format("kafka").option("kafka.bootstrap.servers", bootstrap_servers)
        writer.option("topic", topic.name).option("kafka.linger.ms", "20").option("kafka.batch.size", "131072").save()


def _purchases(spark: SparkSession, requests: int) -> DataFrame:
    from pyspark.sql import functions as f

    spread = (f.col("id") * LASTS_MS / requests).cast("long")
    return spark.range(requests).select(
        "id",
        _uuid("r").alias("request_id"),
        f.concat(f.lit("buyer-"), (f.col("id") / EACH_BUYER_ASKS).cast("long")).alias("user_id"),
        f.concat(f.lit("article-"), f.col("id") % SKUS).alias("sku"),
        (BEGAN_MS + spread).alias("at_ms"),
    )


def _uuid(what: str) -> Column:
    from pyspark.sql import functions as f

    digits = f.md5(f.concat(f.lit(what), f.col("id")))
    cuts = ((1, 8), (9, 4), (13, 4), (17, 4), (21, 12))
    return f.concat_ws("-", *(f.substring(digits, start, length) for start, length in cuts))


def _messages(frame: DataFrame, kind: str, event_id: Column, body: Column) -> DataFrame:
    from pyspark.sql import functions as f

    value = f.struct(
        event_id.alias("event_id"), f.lit(kind).alias("type"), f.lit(1).alias("version"), body.alias("body")
    )
    return frame.select(f.col("user_id").alias("key"), f.to_json(value).alias("value"))


def _requested() -> Column:
    from pyspark.sql import functions as f

    deadline = (f.col("at_ms") + 30_000).alias("deadline_ms")
    return f.struct(*_head(), f.col("at_ms").alias("admitted_at_ms"), deadline)


def _decided() -> Column:
    from pyspark.sql import functions as f

    decision = f.when(f.col("id") % ONE_UNIT_FOR == 0, "RESERVED").otherwise("SOLD_OUT").alias("decision")
    at_ms = (f.col("at_ms") + 10 + f.col("id") % 200).alias("decided_at_ms")
    return f.struct(*_head(), f.lit(9900).alias("unit_price"), decision, f.col("id").alias("stock_version"), at_ms)


def _ordered(after_ms: int) -> Column:
    from pyspark.sql import functions as f

    return f.struct(
        *_head(), _uuid("n").alias("order_id"), f.lit(9900).alias("amount"), (f.col("at_ms") + after_ms).alias("at_ms"),
        (f.col("at_ms") + 900_000).alias("pay_before_ms"), f.lit(False).alias("return_units"),
    )  # fmt: skip


def _head() -> list[Column]:
    from pyspark.sql import functions as f

    return [f.col("request_id"), f.col("user_id"), f.lit(1).alias("sale_id"), f.col("sku"), f.lit(1).alias("quantity")]
