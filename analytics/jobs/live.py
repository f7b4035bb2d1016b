"""Shell: the stream: reads what comes, batch after batch, and survives what a long-running job meets.

Its checkpoint holds how far it has read and what it remembers; the checkpoint's id is the run in every table. A
batch that was cut off by a crash is worked on again, with the same records under the same number, and added once.
A database or broker that is away is waited for: nothing of the sale depends on this job.
"""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Callable
from concurrent.futures import Future
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final
from uuid import UUID

from analytics import schemas, shapes, sinks, sources
from analytics.faults import AnotherLog, StatsFault, plain
from analytics.shapes import SHAPE

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.streaming.query import StreamingQuery

KIND = "live"
FAILURES_IN_A_ROW: Final = 5
LONGEST_PAUSE_S: Final = 30.0
LOOK_S: Final = 0.25
SWITCH_S: Final = 1.0
"""So often it is asked whether the statistics are switched off."""
HELD: Final = "switched off"


@dataclass(frozen=True, slots=True)
class Plan:
    bootstrap_servers: str
    database_url: str
    checkpoint: str
    facts: str
    every_s: float = 5.0
    once: bool = False  # only what is there, then end
    most_records: int = 200_000  # in one batch
    remember: str = "1 day"


@dataclass(frozen=True, slots=True)
class Progress:
    """What is known after a batch."""

    batch: int
    records: int
    behind: int | None  # not said of a batch that is worked on again
    took_ms: int


def frame(records: DataFrame, remember: str) -> DataFrame:
    """All shapes in one stream, so that one batch has all of it: one checkpoint, one number, one transaction."""
    from pyspark.sql import functions as f

    said = schemas.events(records)
    parts = {
        "record": records.select("topic", "partition", "offset", "log_ms"),
        "event": shapes.distinct(said, remember),
        "step": shapes.steps(said, remember),
    }
    tagged = [part.withColumn(SHAPE, f.lit(name)) for name, part in parts.items()]
    return tagged[0].unionByName(tagged[1], allowMissingColumns=True).unionByName(tagged[2], allowMissingColumns=True)


class Live:
    def __init__(self, spark: SparkSession, plan: Plan, tell: Callable[[Progress | str], None]) -> None:
        self._spark, self._plan, self._tell = spark, plan, tell
        self._stopping = threading.Event()
        self._told = -1
        self._is_held, self._asked_at = False, -SWITCH_S

    def stop(self) -> None:
        """The batch that is being worked on is given up; it will be the first one next time."""
        self._stopping.set()

    def run(self) -> None:
        """Until stopped, or until all is read where the plan says `once`; `StatsFault` if it cannot go on."""
        failures, pause_s = 0, 1.0
        while not self._stopping.is_set():
            if self._is_switched_off():
                self._stopping.wait(SWITCH_S)
                continue
            before = self._told
            why = self._one_life()
            if why is None:
                return
            if why is HELD:
                continue
            failures = 1 if self._told > before else failures + 1
            if failures >= FAILURES_IN_A_ROW:
                raise StatsFault(f"gave up after {failures} failures in a row; the last: {why}")
            pause_s = min(LONGEST_PAUSE_S, 2.0**failures)
            self._tell(f"{why}; again in {pause_s:.0f} s")
            self._stopping.wait(pause_s)

    def _one_life(self) -> str | None:
        """None: it ended as it should; else why not."""
        from pyspark.errors import PySparkException

        identity: Future[UUID] = Future()
        try:
            query = self._start(identity)
        except PySparkException as fault:
            return plain(fault)
        try:
            run = UUID(query.id)
            log = sources.identity(self._plan.bootstrap_servers)
            sinks.begin(self._plan.database_url, run, KIND, log)
            identity.set_result(run)
            while query.isActive and not self._stopping.wait(LOOK_S):
                self._look(query)
                if self._is_switched_off():
                    return HELD
            self._look(query)
            if self._stopping.is_set():
                if query.status["isTriggerActive"]:
                    self._tell("stopped inside a batch, which will be the first one next time")
                return None
            failed = query.exception()
            return None if failed is None else plain(failed)
        except Exception as fault:
            if not identity.done():
                identity.set_exception(fault)
            if isinstance(fault, AnotherLog):
                raise
            return plain(fault)
        finally:
            query.stop()

    def _start(self, identity: Future[UUID]) -> StreamingQuery:
        plan = self._plan
        records = sources.stream(self._spark, plan.bootstrap_servers, plan.most_records)
        writer = frame(records, plan.remember).writeStream.option("checkpointLocation", plan.checkpoint)
        if plan.once:
            writer = writer.trigger(availableNow=True)
        else:
            writer = writer.trigger(processingTime=f"{int(plan.every_s * 1000)} milliseconds")
        return writer.foreachBatch(lambda batch, number: self._work(batch, number, identity)).start()

    def _work(self, batch: DataFrame, number: int, identity: Future[UUID]) -> None:
        """Called by Spark, on a thread of its own."""
        from pyspark.sql import functions as f

        url, run = self._plan.database_url, identity.result(60)
        if sinks.is_added(url, run, number):
            # The counts stand, but what the stream remembers is written by computing the batch: it is computed in vain.
            batch.write.format("noop").mode("overwrite").save()
            return
        batch.persist()
        try:
            parts = {shape: batch.where(f.col(SHAPE) == shape) for shape in ("record", "event", "step")}
            sinks.lay_down(parts["event"].select(*schemas.COLUMNS), self._plan.facts, run, number)
            sinks.add(url, run, number, parts)  # type: ignore[arg-type]
        finally:
            batch.unpersist()

    def _is_switched_off(self) -> bool:
        """As it was, while nobody can say. What was asked for once (`once`) is done."""
        if self._plan.once or time.monotonic() < self._asked_at + SWITCH_S:
            return self._is_held
        self._asked_at, was_held = time.monotonic(), self._is_held
        try:
            self._is_held = sinks.is_switched_off(self._plan.database_url)
        except Exception:  # the database is away: a batch that needs it will say so
            return self._is_held
        if self._is_held != was_held:
            self._tell("switched off: holding still" if self._is_held else "switched on: catching up")
        return self._is_held

    def _look(self, query: StreamingQuery) -> None:
        """Tell of the batches that have ended since the last look."""
        for said in query.recentProgress:
            if said.batchId > self._told and said.numInputRows:
                self._told = said.batchId
                source = said.sources[0]
                behind = _sum(source.latestOffset) - _sum(source.endOffset) if source.latestOffset else None
                records = _sum(source.endOffset) - _sum(source.startOffset)
                self._tell(Progress(said.batchId, records, behind, said.durationMs.get("triggerExecution", 0)))


def _sum(offsets: str | None) -> int:
    said: dict[str, dict[str, int]] = json.loads(offsets or "null") or {}
    return sum(at for rows in said.values() for at in rows.values())
