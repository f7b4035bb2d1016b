"""Frames to frames: the three shapes that are measured, from the records of the topics.

Topics are read at least once and written at least once: an event counts by its `event_id`, however often it stands in
the log. In a stream that needs a memory. It forgets by the time of *reading*, never by the event's own time: whatever
comes late, or is read late after a pause, is still counted, and nothing is ever dropped for being late. An event id is
remembered for `remember`, and a request waits as long for what follows from it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from analytics.measures.timing import STEPS
from analytics.schemas import REQUESTED
from seckill.topics import QUEUES

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

SHAPE = "shape"
COPY = "copy"
"""Of an event in a batch: 1 for the first in the log, which counts, 2 and more for its duplicates."""


def numbered(said: DataFrame) -> DataFrame:
    """Of a batch: every record, and which copy of its event it is. So one look at the topics gives both the records
    and the distinct events. (`dropDuplicates` would sort twice, before the shuffle and after it, and forget them.)"""
    from pyspark.sql import functions as f
    from pyspark.sql.window import Window

    copies = Window.partitionBy("event_id").orderBy("topic", "partition", "offset")
    return said.withColumn(COPY, f.row_number().over(copies))


def distinct(said: DataFrame, remember: str) -> DataFrame:
    """Each event once; of a batch, that is `numbered`."""
    from pyspark.sql import functions as f

    if not said.isStreaming:
        return said.where(f.col(COPY) == 1)
    return said.withWatermark("read_at", remember).dropDuplicatesWithinWatermark(["event_id"])


def steps(said: DataFrame, remember: str) -> DataFrame:
    """What followed from a request, beside it, each once: an inner join, so what has no request is not here. Of a batch
    it takes the distinct events; in a stream it sees to that itself."""
    from pyspark.sql import functions as f

    readable = said.where(f.col("fault").isNull())
    if said.isStreaming:
        readable = readable.withWatermark("read_at", remember)
    is_request = f.col("topic").isin(*QUEUES) & (f.col("kind") == REQUESTED)
    first = readable.where(is_request).select(
        f.col("request_id").alias("asked_id"), f.col("at_ms").alias("admitted_ms"), f.col("log_ms").alias("came_ms"),
        f.col("read_at").alias("asked_read_at"),
    )  # fmt: skip
    then = readable.where(~f.col("topic").isin(*QUEUES) & f.col("kind").isin(*STEPS)).select(
        "event_id", "request_id", "sale_id", "sku", "kind", "at_ms", "read_at"
    )
    matches = f.col("request_id") == f.col("asked_id")
    if said.isStreaming:
        span = f"INTERVAL {remember}"
        matches = matches & f.expr(f"read_at BETWEEN asked_read_at - {span} AND asked_read_at + {span}")
    both = first.join(then, matches).drop("asked_id", "asked_read_at", "request_id")
    return both.dropDuplicatesWithinWatermark(["event_id"]) if said.isStreaming else both
