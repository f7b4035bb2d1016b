"""Shell: one pass over the topics between two cuts, counted anew; it takes the place of the replay before."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING
from uuid import UUID, uuid4

from analytics import schemas, shapes, sinks, sources
from analytics.measures import Shape
from analytics.sources import Cut

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

KIND = "replay"
RECORDS_PER_TASK = 500_000
"""Of a shuffle: so many fit into a task's memory with room to spare."""


@dataclass(frozen=True, slots=True)
class Replayed:
    run: UUID
    cut: Cut


def replay(
    spark: SparkSession,
    bootstrap_servers: str,
    database_url: str,
    facts: str,
    from_ms: int | None = None,
    say: Callable[[str], None] = lambda text: None,
) -> Replayed:
    cut = sources.cut(bootstrap_servers, from_ms)
    say(f"reading {cut.records:,} records")
    run = uuid4()
    sinks.begin(database_url, run, KIND, sources.identity(bootstrap_servers), cut)
    spread(spark, cut.records)
    frames, said = looked_at(schemas.events(sources.batch(spark, bootstrap_servers, cut)))
    try:
        sinks.lay_down(frames["event"].select(*schemas.COLUMNS), facts, run, 0)
        say(f"counting {cut.records:,} records")
        sinks.add(database_url, run, 0, frames, replaces=KIND)
    finally:
        said.unpersist()
    return Replayed(run, cut)


def looked_at(said: DataFrame) -> tuple[dict[Shape, DataFrame], DataFrame]:
    """What the measures look at, and the frame beneath it, which is kept until it is given back: on disk, so that
    memory does not depend on how much there is."""
    from pyspark import StorageLevel

    numbered = shapes.numbered(said).persist(StorageLevel.DISK_ONLY)
    unique = shapes.distinct(numbered, "")
    return {"record": numbered, "event": unique, "step": shapes.steps(unique, "")}, numbered


def spread(spark: SparkSession, records: int) -> None:
    """As many shuffle partitions as the records need, but no fewer than the session began with."""
    least = int(spark.conf.get("spark.sql.shuffle.partitions") or 2)
    spark.conf.set("spark.sql.shuffle.partitions", max(least, -(-records // RECORDS_PER_TASK)))
