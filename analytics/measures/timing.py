"""Measures over time: rates, curves and latencies. A row holds the start of its second or minute in ms."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from analytics.measures.counting import count_of, readable, sum_of
from analytics.schemas import DECISIONS, PAID, PLACED, REFUNDED, RELEASED, REQUESTED

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

ARRIVED: Final = "arrived"
"""A request counted by the time it reached the log; under its own kind it is counted by the time of admission."""
SECOND_MS, MINUTE_MS = 1_000, 60_000
BUCKETS_PER_DOUBLING: Final = 8


def flow(events: DataFrame) -> DataFrame:
    """Events by second and kind. The difference between the running sums of two kinds is the backlog between them."""
    from pyspark.sql import functions as f

    happened = f.struct(_start("at_ms", SECOND_MS).alias("at_ms"), f.col("kind"))
    arrived = f.struct(_start("log_ms", SECOND_MS).alias("at_ms"), f.lit(ARRIVED).alias("kind"))
    both = f.when(f.col("kind") == REQUESTED, f.array(happened, arrived)).otherwise(f.array(happened))
    points = readable(events).select("sale_id", f.explode(both).alias("point")).select("sale_id", "point.*")
    return points.groupBy("sale_id", "at_ms", "kind").agg(f.count("*").alias("events"))


def sell_through(events: DataFrame) -> DataFrame:
    """Units reserved, released and paid, by second. Their running sums are the curve of the chart."""
    from pyspark.sql import functions as f

    moved = readable(events).where(f.col("kind").isin("RESERVED", RELEASED, PAID))
    return (
        moved.withColumn("at_ms", _start("at_ms", SECOND_MS))
        .groupBy("sale_id", "sku", "at_ms")
        .agg(sum_of("RESERVED").alias("reserved"), sum_of(RELEASED).alias("released"), sum_of(PAID).alias("sold"))
    )


def revenue(events: DataFrame) -> DataFrame:
    """By minute, in the smallest coin. A late payment is never revenue, so its refund does not reduce it."""
    from pyspark.sql import functions as f

    money = readable(events).where(f.col("kind").isin(PAID, REFUNDED))
    return (
        money.withColumn("at_ms", _start("at_ms", MINUTE_MS))
        .groupBy("sale_id", "at_ms")
        .agg(
            count_of(PAID).alias("orders"), sum_of(PAID, "amount").alias("amount"),
            sum_of(REFUNDED, "amount").alias("refunded"),
        )
    )  # fmt: skip


def latency(steps: DataFrame) -> DataFrame:
    """From admission to decision, order and payment, as counts in buckets that grow by 9 % (see `bucket`)."""
    from pyspark.sql import functions as f

    stage = f.when(f.col("kind") == PLACED, "order").when(f.col("kind") == PAID, "payment").otherwise("decision")
    took = steps.select(
        "sale_id", stage.alias("stage"), f.greatest(f.lit(0), f.col("at_ms") - f.col("admitted_ms")).alias("ms")
    )
    return took.groupBy("sale_id", "stage", bucket("ms").alias("bucket")).agg(
        f.count("*").alias("events"), f.max("ms").alias("most_ms")
    )


def bucket(column: str) -> Column:
    """Eight buckets for each doubling, so a percentile read from them is off by 4.5 % at most."""
    from pyspark.sql import functions as f

    return f.floor(f.log2(f.col(column) + 1) * BUCKETS_PER_DOUBLING)


def middle_ms(number: int) -> float:
    """The geometric mean of the limits of a bucket."""
    return float(2 ** ((number + 0.5) / BUCKETS_PER_DOUBLING) - 1)


def _start(column: str, step_ms: int) -> Column:
    from pyspark.sql import functions as f

    return f.col(column) - f.pmod(f.col(column), f.lit(step_ms))


STEPS: Final = (*DECISIONS, PLACED, PAID)
"""The kinds that are joined with their request."""
