"""Shell: read all sources in an order that makes them comparable: wait until the run is idle, record where the topics
end, read what the crowd logged, take a snapshot of the database, and check that nothing has moved meanwhile.

If the topics have not grown, nothing is unpublished and every group has read to the end, then topics and tables contain
the same events. Otherwise the evidence says what is unfinished.
"""

from __future__ import annotations

import time
from collections import defaultdict
from collections.abc import Callable, Sized
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import psycopg
from kafka import TopicPartition
from kafka.errors import KafkaError
from redis.exceptions import RedisError

from seckill.config.redis_address import without_password
from seckill.messaging.topics import TOPICS
from seckill.report.evidence import Evidence
from seckill.report.evidence_sources import Source, SourceStatus
from seckill.report.manifest import Manifest
from seckill.report.rows import GroupOffset
from seckill.report.sources import database, files, gate, statistics, topics
from seckill.report.sources.records import TopicReader, TopicsUnreadable

SPARK = "analytics"
UNREACHABLE_SECONDS_MAX = 15.0
"""After this long without an answer, broker and database count as down, and the report stops waiting for them."""


@dataclass(frozen=True, slots=True)
class Addresses:
    kafka: str
    database: str
    gate: str
    sandbox: Path  # folder with the logs of the payment provider and the sinks


def collect(where: Addresses, manifest: Manifest, patience_s: float, tell: Callable[[str], None]) -> Evidence:
    tell("waiting until all work is done")
    _await_idle(where, patience_s)
    return Collector(where, manifest, tell).collect()


class Collector:
    """Reads the sources one after the other, and keeps for each one what was read and what went wrong."""

    def __init__(self, where: Addresses, manifest: Manifest, tell: Callable[[str], None]) -> None:
        self._where, self._manifest, self._tell = where, manifest, tell
        self._fields: dict[str, Any] = {}  # fields of Evidence
        self._counts: dict[Source, dict[str, int]] = defaultdict(dict)
        self._faults: dict[Source, list[str]] = defaultdict(list)

    def collect(self) -> Evidence:
        ends: dict[TopicPartition, int] = {}
        try:
            ends = topics.topic_ends(self._where.kafka)
        except KafkaError as fault:
            self._faults[Source.TOPICS].append(f"no broker: {fault}")
        reader = TopicReader(self._where.kafka, ends) if ends else None
        try:
            # The crowd before the tables: whatever a buyer saw was true by the time the tables are read.
            self._tell("reading the crowd's log and the topics")
            self._read_crowd_logs()
            self._tell("reading Postgres, Redis and the topics")
            taken_at_ms = self._read_database()
            self._read_gates()
            self._tell("reading the topics")
            self._read_topics(reader)
            self._read_outside_logs()
            self._read_statistics()
        finally:
            if reader is not None:
                reader.stop()
        return Evidence(
            sources={
                source: SourceStatus(source, self._counts[source], tuple(self._faults[source])) for source in Source
            },
            taken_at_ms=taken_at_ms,
            declared_off=self._manifest.declared_off,
            planned_faults=self._manifest.faults,
            runs=self._manifest.runs,
            unfinished=tuple(self._unfinished(ends)),
            **self._fields,
        )

    def _keep(self, source: Source, field: str, rows: Sized) -> None:
        self._fields[field] = rows
        self._counts[source][field] = len(rows)

    def _read_crowd_logs(self) -> None:
        folder = self._manifest.folder
        if not self._manifest.is_there:
            self._faults[Source.CROWD].append(f"no {folder.name}/manifest.json, so nothing is declared")
        crowd = files.read_crowd_logs([folder / name for name in self._manifest.logs])
        self._keep(Source.CROWD, "attempts", crowd.attempts)
        self._keep(Source.CROWD, "polls", crowd.polls)
        self._keep(Source.CROWD, "other_calls", crowd.other_calls)
        self._counts[Source.CROWD]["polls"] = crowd.polls_logged
        self._fields["crowd_sales"] = frozenset(crowd.sales)
        self._faults[Source.CROWD] += crowd.faults

    def _read_database(self) -> int:
        """Returns the time of the snapshot."""
        try:
            snapshot = database.read_snapshot(self._where.database)
        except psycopg.Error as fault:
            for source in (Source.STOCK, Source.ORDERS, Source.PAYMENTS, Source.MESSAGES):
                self._faults[source].append(f"no database: {str(fault).splitlines()[0]}")
            return time.time_ns() // 1_000_000
        self._fields |= snapshot.fields
        self._faults[Source.ORDERS] += snapshot.faults
        for source, counts in snapshot.counts.items():
            self._counts[source] |= counts
        return snapshot.taken_at_ms

    def _read_gates(self) -> None:
        stocks = self._fields.get("stocks", [])
        try:
            gates = gate.read_gates(self._where.gate, stocks)
        except RedisError as fault:
            self._faults[Source.GATE].append(
                f"the gate's Redis at {without_password(self._where.gate)} does not answer: {fault}"
            )
            return
        self._fields["gates"] = gates
        retired = sum(stock.gate_retired for stock in stocks)
        self._counts[Source.GATE]["gates"] = retired + sum(each.free is not None for each in gates)

    def _read_topics(self, reader: TopicReader | None) -> None:
        if reader is None:
            self._faults[Source.TOPICS].append("no topics were found")
            self._faults[Source.COMMITS].append("no topics were found")
            return
        try:
            contents = reader.result()
            for field in ("requests", "decision_events", "order_events", "unreadable"):
                self._keep(Source.TOPICS, field, getattr(contents, field))
            self._fields["partition_logs"] = contents.partition_logs
            self._faults[Source.TOPICS] += contents.faults
            committed = topics.read_committed_offsets(self._where.kafka, consumer_groups())
            self._keep(Source.COMMITS, "committed_offsets", committed)
        except (KafkaError, TopicsUnreadable) as fault:
            self._faults[Source.TOPICS].append(f"not read: {fault}")
            self._faults[Source.COMMITS].append(f"not read: {fault}")

    def _read_outside_logs(self) -> None:
        sandbox, folder = self._where.sandbox, self._manifest.folder
        logs: list[tuple[Source, str, files.LogContents]] = [
            (Source.PAYMENTS, "provider_lines", files.read_provider_log(sandbox / "provider.jsonl")),
            (Source.MESSAGES, "sink_lines", files.read_sink_log(sandbox / "sinks.jsonl")),
            (Source.FAULTS, "process_events", files.read_process_log(folder / "observed.jsonl")),
        ]
        if self._manifest.faults:
            logs.append((Source.FAULTS, "injected_faults", files.read_fault_log(folder / "faults.jsonl")))
        for source, field, (lines, faults) in logs:
            self._keep(source, field, lines)
            self._faults[source] += faults

    def _read_statistics(self) -> None:
        try:
            found = statistics.read_statistics(self._where.database)
        except psycopg.Error as fault:
            self._faults[Source.STATISTICS].append(f"no statistics: {str(fault).splitlines()[0]}")
            return
        self._keep(Source.STATISTICS, "spark_counts", found.spark_counts)
        self._keep(Source.STATISTICS, "spark_cuts", found.spark_cuts)
        if not found.spark_cuts:
            self._faults[Source.STATISTICS].append("no statistics yet; run `seckill stats replay`")

    def _unfinished(self, ends: dict[TopicPartition, int]) -> list[str]:
        if "group_offsets" not in self._fields or not ends:
            return ["progress is unknown, because the database or the broker cannot be read"]
        unpublished = sorted(self._fields["unpublished"].items())
        reasons = [f"{count} events of {writer} are not published" for writer, count in unpublished]
        reasons += _lagging_groups(ends, self._fields["group_offsets"])
        try:
            grown = sum(topics.topic_ends(self._where.kafka).values()) - sum(ends.values())
        except KafkaError as fault:
            return [*reasons, f"the broker no longer answers: {fault}"]
        if grown:
            reasons.append(f"the topics have grown by {grown} records since the cut")
        return reasons


# ── waiting until the run is idle ────────────────────────────────────────────────────────────────


def consumer_groups() -> list[str]:
    """All groups except Spark's, which keeps its offsets in its own checkpoint."""
    return sorted({reader for topic in TOPICS.values() for reader in topic.readers if reader != SPARK})


def _await_idle(where: Addresses, patience_s: float) -> None:
    """Wait for two idle checks in a row, half a second apart, or until the patience is used up; the evidence will then
    say what is unfinished. A server that does not answer may be restarting or slow, so it gets some time, too."""
    last_answer = time.monotonic()
    give_up = last_answer + patience_s
    idle_checks = 0
    while idle_checks < 2 and time.monotonic() < min(give_up, last_answer + UNREACHABLE_SECONDS_MAX):
        try:
            offsets, unpublished = database.read_offsets(where.database)
            lagging = _lagging_groups(topics.topic_ends(where.kafka), offsets)
            busy = unpublished + database.count_unsettled(where.database) + len(lagging)
            last_answer = time.monotonic()
        except (psycopg.Error, KafkaError):
            busy = 1
        idle_checks = 0 if busy else idle_checks + 1
        time.sleep(0.5)


def _lagging_groups(ends: dict[TopicPartition, int], offsets: list[GroupOffset]) -> list[str]:
    """One sentence for each group that has not read its topics to the end."""
    reached = {(row.group, row.topic, row.partition): row.next_offset for row in offsets}
    lag: dict[str, int] = defaultdict(int)
    for partition, end in ends.items():
        for group in TOPICS[partition.topic].readers:
            if group != SPARK:
                lag[group] += max(0, end - reached.get((group, partition.topic, partition.partition), 0))
    return [f"{group} is {count} records behind" for group, count in sorted(lag.items()) if count]
