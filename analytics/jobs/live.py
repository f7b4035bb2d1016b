"""Shell: the stream, which counts new records batch by batch and survives crashes and outages.

Its checkpoint holds the offsets and the state; the id of the checkpoint is the id of the run in every table. A batch
that a crash interrupted is repeated with the same records and the same number, and added once. If the database or the
broker is down, the job retries, because the sale does not depend on it.
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

from analytics import frame_shapes, schemas, sinks, sources
from analytics.faults import LogMismatch, StatsFault, error_summary
from analytics.frame_shapes import SHAPE

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.streaming.query import StreamingQuery

KIND = "live"
FAILURES_IN_A_ROW: Final = 5
PAUSE_SECONDS_MAX: Final = 30.0
POLL_SECONDS: Final = 0.25
SWITCH_POLL_SECONDS: Final = 1.0
"""How often the job checks whether an operator has switched the statistics off."""
SWITCHED_OFF: Final = "switched off"


@dataclass(frozen=True, slots=True)
class StreamPlan:
    bootstrap_servers: str
    database_url: str
    checkpoint: str
    facts: str
    every_s: float = 5.0
    once: bool = False  # count the existing records, then stop
    most_records: int = 200_000  # in one batch
    remember: str = "1 day"


@dataclass(frozen=True, slots=True)
class BatchProgress:
    """The numbers of a finished batch."""

    batch: int
    records: int
    behind: int | None  # None for a repeated batch
    took_ms: int


def stream_frame(records: DataFrame, remember: str) -> DataFrame:
    """All shapes in one stream, so that a batch has one checkpoint, one number and one transaction."""
    from pyspark.sql import functions as f

    events = schemas.parse_events(records)
    parts = {
        "record": records.select("topic", "partition", "offset", "log_ms"),
        "event": frame_shapes.distinct_events(events, remember),
        "step": frame_shapes.request_steps(events, remember),
    }
    tagged = [part.withColumn(SHAPE, f.lit(name)) for name, part in parts.items()]
    return tagged[0].unionByName(tagged[1], allowMissingColumns=True).unionByName(tagged[2], allowMissingColumns=True)


class StreamJob:
    def __init__(self, spark: SparkSession, plan: StreamPlan, tell: Callable[[BatchProgress | str], None]) -> None:
        self._spark, self._plan, self._tell = spark, plan, tell
        self._stopping = threading.Event()
        self._last_reported = -1
        self._is_held, self._asked_at = False, -SWITCH_POLL_SECONDS

    def stop(self) -> None:
        """Abandon the current batch; it will be repeated at the next start."""
        self._stopping.set()

    def run(self) -> None:
        """Run until stopped, or with `once` until everything is read. Raises `StatsFault` after too many failures."""
        failures, pause_s = 0, 1.0
        while not self._stopping.is_set():
            if self._is_switched_off():
                self._stopping.wait(SWITCH_POLL_SECONDS)
                continue
            before = self._last_reported
            why = self._run_query()
            if why is None:
                return
            if why is SWITCHED_OFF:
                continue
            failures = 1 if self._last_reported > before else failures + 1
            if failures >= FAILURES_IN_A_ROW:
                raise StatsFault(f"gave up after {failures} failures in a row; the last: {why}")
            pause_s = min(PAUSE_SECONDS_MAX, 2.0**failures)
            self._tell(f"{why}; retrying in {pause_s:.0f} s")
            self._stopping.wait(pause_s)

    def _run_query(self) -> str | None:
        """Returns None if the query ended normally, otherwise the reason."""
        from pyspark.errors import PySparkException

        identity: Future[UUID] = Future()
        try:
            query = self._start(identity)
        except PySparkException as fault:
            return error_summary(fault)
        try:
            run = UUID(query.id)
            log = sources.log_identity(self._plan.bootstrap_servers)
            sinks.register_run(self._plan.database_url, run, KIND, log)
            identity.set_result(run)
            while query.isActive and not self._stopping.wait(POLL_SECONDS):
                self._report_batches(query)
                if self._is_switched_off():
                    return SWITCHED_OFF
            self._report_batches(query)
            if self._stopping.is_set():
                if query.status["isTriggerActive"]:
                    self._tell("stopped inside a batch, which will be repeated at the next start")
                return None
            failed = query.exception()
            return None if failed is None else error_summary(failed)
        except Exception as fault:
            if not identity.done():
                identity.set_exception(fault)
            if isinstance(fault, LogMismatch):
                raise
            return error_summary(fault)
        finally:
            query.stop()

    def _start(self, identity: Future[UUID]) -> StreamingQuery:
        plan = self._plan
        records = sources.read_stream(self._spark, plan.bootstrap_servers, plan.most_records)
        writer = stream_frame(records, plan.remember).writeStream.option("checkpointLocation", plan.checkpoint)
        if plan.once:
            writer = writer.trigger(availableNow=True)
        else:
            writer = writer.trigger(processingTime=f"{int(plan.every_s * 1000)} milliseconds")
        return writer.foreachBatch(lambda batch, number: self._process_batch(batch, number, identity)).start()

    def _process_batch(self, batch: DataFrame, number: int, identity: Future[UUID]) -> None:
        """Called by Spark on its own thread."""
        from pyspark.sql import functions as f

        url, run = self._plan.database_url, identity.result(60)
        if sinks.is_added(url, run, number):
            # The counts were added, but Spark saves the state only if the batch is computed, so compute and discard it.
            batch.write.format("noop").mode("overwrite").save()
            return
        batch.persist()
        try:
            parts = {shape: batch.where(f.col(SHAPE) == shape) for shape in ("record", "event", "step")}
            sinks.write_facts(parts["event"].select(*schemas.COLUMNS), self._plan.facts, run, number)
            sinks.add_counts(url, run, number, parts)  # type: ignore[arg-type]
        finally:
            batch.unpersist()

    def _is_switched_off(self) -> bool:
        """Keeps the last answer while the database does not respond. A job with `once` ignores the switch."""
        if self._plan.once or time.monotonic() < self._asked_at + SWITCH_POLL_SECONDS:
            return self._is_held
        self._asked_at, was_held = time.monotonic(), self._is_held
        try:
            self._is_held = sinks.is_switched_off(self._plan.database_url)
        except Exception:  # the next batch will report that the database is down
            return self._is_held
        if self._is_held != was_held:
            self._tell("switched off, waiting" if self._is_held else "switched on, catching up")
        return self._is_held

    def _report_batches(self, query: StreamingQuery) -> None:
        """Report the batches that have finished since the last call."""
        for progress in query.recentProgress:
            if progress.batchId > self._last_reported and progress.numInputRows:
                self._last_reported = progress.batchId
                source = progress.sources[0]
                behind = _sum(source.latestOffset) - _sum(source.endOffset) if source.latestOffset else None
                records = _sum(source.endOffset) - _sum(source.startOffset)
                self._tell(
                    BatchProgress(progress.batchId, records, behind, progress.durationMs.get("triggerExecution", 0))
                )


def _sum(offsets: str | None) -> int:
    by_topic: dict[str, dict[str, int]] = json.loads(offsets or "null") or {}
    return sum(at for rows in by_topic.values() for at in rows.values())
