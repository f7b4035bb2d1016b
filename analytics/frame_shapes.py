"""Codec: from parsed records to the three kinds of frames that measures use: records, distinct events, request steps.

Topics are written and read at least once, so an event counts once per `event_id`, however often it is in the log. A
stream has to remember event ids for that. It forgets them by the time of *reading*, never by the time of the event, so
an event that arrives late or is read late after a pause is still counted. Event ids are remembered for `remember`, and
a request waits just as long for its decision and order.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from analytics.measures.timing import STEPS
from analytics.schemas import REQUESTED
from seckill.messaging.topics import REQUEST_TOPICS

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

SHAPE = "shape"
COPY = "copy"
"""The number of the copy of an event in a batch: 1 for the first in the log, which counts, more for duplicates."""


def with_copy_numbers(events: DataFrame) -> DataFrame:
    """For batches: every record with the number of its copy, so that one pass over the topics yields both the records
    and the distinct events. `dropDuplicates` would sort twice and lose the duplicates."""
    from pyspark.sql import functions as f
    from pyspark.sql.window import Window

    copies = Window.partitionBy("event_id").orderBy("topic", "partition", "offset")
    return events.withColumn(COPY, f.row_number().over(copies))


def distinct_events(events: DataFrame, remember: str) -> DataFrame:
    """Each event once. A batch must have gone through `with_copy_numbers`."""
    from pyspark.sql import functions as f

    if not events.isStreaming:
        return events.where(f.col(COPY) == 1)
    return events.withWatermark("read_at", remember).dropDuplicatesWithinWatermark(["event_id"])


def request_steps(events: DataFrame, remember: str) -> DataFrame:
    """Each decision, order and payment joined with its request, once; events without a request are left out. A batch
    must contain distinct events; a stream is made distinct here."""
    from pyspark.sql import functions as f

    readable = events.where(f.col("fault").isNull())
    if events.isStreaming:
        readable = readable.withWatermark("read_at", remember)
    is_request = f.col("topic").isin(*REQUEST_TOPICS) & (f.col("kind") == REQUESTED)
    first = readable.where(is_request).select(
        f.col("request_id").alias("asked_id"), f.col("at_ms").alias("admitted_ms"), f.col("log_ms").alias("came_ms"),
        f.col("read_at").alias("asked_read_at"),
    )  # fmt: skip
    then = readable.where(~f.col("topic").isin(*REQUEST_TOPICS) & f.col("kind").isin(*STEPS)).select(
        "event_id", "request_id", "sale_id", "sku", "kind", "at_ms", "read_at"
    )
    matches = f.col("request_id") == f.col("asked_id")
    if events.isStreaming:
        span = f"INTERVAL {remember}"
        matches = matches & f.expr(f"read_at BETWEEN asked_read_at - {span} AND asked_read_at + {span}")
    both = first.join(then, matches).drop("asked_id", "asked_read_at", "request_id")
    return both.dropDuplicatesWithinWatermark(["event_id"]) if events.isStreaming else both
