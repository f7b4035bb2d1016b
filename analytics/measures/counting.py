"""Measures of counts by partition and kind. The consistency report compares them with the database (I22)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from analytics.schemas import DECISIONS, LATE_MS, REQUESTED

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame


def partitions(records: DataFrame) -> DataFrame:
    """How far each partition was read. Records that do not count as events are duplicates."""
    from pyspark.sql import functions as f

    return records.groupBy("topic", "partition").agg(
        f.count("*").alias("records"),
        f.min("offset").alias("first_offset"),
        (f.max("offset") + 1).alias("next_offset"),
        f.max("log_ms").alias("last_log_ms"),
    )


def unreadable(events: DataFrame) -> DataFrame:
    from pyspark.sql import functions as f

    bad = events.where(f.col("fault").isNotNull())
    return bad.groupBy("topic", "partition", "fault").agg(f.count("*").alias("records"))


def totals(events: DataFrame) -> DataFrame:
    """Distinct events with their units and amounts, and how many of them reached the log late."""
    from pyspark.sql import functions as f

    return (
        readable(events)
        .groupBy("topic", "partition", "sale_id", "kind")
        .agg(
            f.count("*").alias("events"),
            f.sum("quantity").alias("units"),
            f.sum("amount").alias("amount"),
            f.count_if(f.col("log_ms") - f.col("at_ms") > LATE_MS).alias("late"),
        )
    )


def skus(events: DataFrame) -> DataFrame:
    from pyspark.sql import functions as f

    relevant = readable(events).where(f.col("kind").isin(REQUESTED, *DECISIONS))
    return relevant.groupBy("sale_id", "sku").agg(
        count_of(REQUESTED).alias("requests"),
        sum_of(REQUESTED).alias("wanted"),
        sum_of("RESERVED").alias("reserved"),
        count_of("SOLD_OUT").alias("sold_out"),
    )


def readable(events: DataFrame) -> DataFrame:
    from pyspark.sql import functions as f

    return events.where(f.col("fault").isNull())


def count_of(*kinds: str) -> Column:
    from pyspark.sql import functions as f

    return f.count_if(f.col("kind").isin(*kinds))


def sum_of(kind: str, of: str = "quantity") -> Column:
    from pyspark.sql import functions as f

    return f.sum(f.when(f.col("kind") == kind, f.col(of)).otherwise(0))
