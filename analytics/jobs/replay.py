"""Shell: count all records between two offsets in one pass. The result replaces the previous replay."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING
from uuid import UUID, uuid4

from analytics import frame_shapes, schemas, sinks, sources
from analytics.measures import FrameShape
from analytics.sources import Cut

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

KIND = "replay"
RECORDS_PER_TASK = 500_000
"""For shuffles: this many records fit into the memory of a task with room to spare."""


@dataclass(frozen=True, slots=True)
class Replay:
    run: UUID
    cut: Cut


def run_replay(
    spark: SparkSession,
    bootstrap_servers: str,
    database_url: str,
    facts: str,
    from_ms: int | None = None,
    tell: Callable[[str], None] = lambda text: None,
) -> Replay:
    cut = sources.find_cut(bootstrap_servers, from_ms)
    tell(f"reading {cut.records:,} records")
    run = uuid4()
    sinks.register_run(database_url, run, KIND, sources.log_identity(bootstrap_servers), cut)
    set_shuffle_partitions(spark, cut.records)
    frames, kept = measured_frames(schemas.parse_events(sources.read_batch(spark, bootstrap_servers, cut)))
    try:
        sinks.write_facts(frames["event"].select(*schemas.COLUMNS), facts, run, 0)
        tell(f"counting {cut.records:,} records")
        sinks.add_counts(database_url, run, 0, frames, replaces=KIND)
    finally:
        kept.unpersist()
    return Replay(run, cut)


def measured_frames(events: DataFrame) -> tuple[dict[FrameShape, DataFrame], DataFrame]:
    """The frames for the measures, and the frame below them, which the caller must unpersist. It is kept on disk so
    that memory does not depend on the number of records."""
    from pyspark import StorageLevel

    numbered = frame_shapes.with_copy_numbers(events).persist(StorageLevel.DISK_ONLY)
    unique = frame_shapes.distinct_events(numbered, "")
    return {"record": numbered, "event": unique, "step": frame_shapes.request_steps(unique, "")}, numbered


def set_shuffle_partitions(spark: SparkSession, records: int) -> None:
    """As many as the records need, but no fewer than the session started with."""
    least = int(spark.conf.get("spark.sql.shuffle.partitions") or 2)
    spark.conf.set("spark.sql.shuffle.partitions", max(least, -(-records // RECORDS_PER_TASK)))
