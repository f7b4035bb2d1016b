"""Shell: reads the running sale while anyone has the console open, and keeps the last five minutes.

Threads start with the first reader and end one minute after the last one. The fast one reads offsets four times a
second; the slow one counts in tables and pauses nine times as long as its work took; a third one calls each Redis once
a second; with several brokers, another one reads their replicas as often. A source that cannot be read keeps its last
value, with its age and the fault.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import Path
from typing import Any, Generic, NamedTuple, TypeVar

import psycopg
from django.conf import settings
from django.db import Error as DatabaseError
from django.db import connection
from kafka.errors import KafkaError
from redis.exceptions import RedisError

from gateway.metrics import offered_total
from seckill.console import partition_owners, queries, replicas
from seckill.console.labels import HOPS
from seckill.console.marks import ChartMarks
from seckill.console.partition_owners import PartitionOwners
from seckill.console.processes import read_processes
from seckill.console.queries import BoardCounts
from seckill.console.replicas import PartitionReplicas
from seckill.console.traffic import TrafficHistory
from seckill.messaging.models import ConsumerOffset
from seckill.messaging.topics import REQUEST_TOPICS
from seckill.report.live.counting import LiveCounter
from seckill.report.live.residuals import Residual, residuals
from seckill.report.sources import topics
from seckill.report.sources.collect import Addresses
from seckill.report.traffic import TrafficTotals
from seckill.resilience.redis_servers import find_fault, redis_servers

log = logging.getLogger(__name__)

FAST_S, SLOW_S = 0.25, 2.0
PAUSE_FACTOR = 9
STACK_S = REPLICAS_S = REDIS_S = 1.0
UNWATCHED_S = 60.0
FAULTS = (DatabaseError, psycopg.Error, KafkaError, RedisError, OSError, ValueError, KeyError)

Partition = tuple[str, int]  # topic, partition
GroupPartition = tuple[str, str, int]  # group, topic, partition
Value = TypeVar("Value")


class Progress(NamedTuple):
    """How far topics and consumer groups are. `moved_at`: when an offset last changed, in monotonic seconds."""

    ends: dict[Partition, int]
    offsets: dict[GroupPartition, int]
    moved_at: dict[GroupPartition, float]


@dataclass(slots=True)
class SourceReading(Generic[Value]):
    """The last value of a source, when it was read, and why it cannot be read now."""

    value: Value | None = None
    read_at: float = float("-inf")
    fault: str = ""

    def age_s(self, now: float) -> float | None:
        return None if self.value is None else round(now - self.read_at, 1)


@dataclass(slots=True)
class BoardMonitor:
    progress: SourceReading[Progress] = field(default_factory=SourceReading)
    counts: SourceReading[BoardCounts] = field(default_factory=SourceReading)
    books: SourceReading[list[Residual]] = field(default_factory=SourceReading)
    owners: SourceReading[PartitionOwners] = field(default_factory=SourceReading)
    replicas: SourceReading[list[PartitionReplicas]] = field(default_factory=SourceReading)
    stack: SourceReading[list[dict[str, Any]]] = field(default_factory=SourceReading)  # the processes
    redis: SourceReading[dict[str, str]] = field(default_factory=SourceReading)  # why a server does not answer, or ""
    traffic: TrafficHistory = field(default_factory=TrafficHistory)
    marks: ChartMarks = field(default_factory=ChartMarks)
    runs_threads: bool = True  # False: a test reads without threads that would outlive it
    _read_at: float = float("-inf")
    _running: set[str] = field(default_factory=set)
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def keep_running(self) -> None:
        """Called for every reader. Starts the threads unless they run."""
        self._read_at = time.monotonic()
        if not self.runs_threads:
            return
        with self._lock:
            works = [
                ("board fast", self._read_fast), ("board slow", self._read_slow), ("board redis", self._read_redis),
            ]  # fmt: skip
            if has_several_brokers():
                works.append(("board replicas", self._read_replicas))
            for name, work in works:
                if name not in self._running:
                    self._running.add(name)
                    threading.Thread(target=self._run, args=(name, work), name=name, daemon=True).start()

    def _run(self, name: str, work: Callable[[], None]) -> None:
        try:
            work()
        finally:
            connection.close()
            with self._lock:
                self._running.discard(name)

    def _is_watched(self) -> bool:
        return time.monotonic() - self._read_at < UNWATCHED_S

    # ── four times a second ──────────────────────────────────────────────────────────────────────

    def _read_fast(self) -> None:
        consumer, partitions, stack_at = None, [], float("-inf")
        moved_at: dict[GroupPartition, float] = {}
        while self._is_watched():
            began = time.monotonic()
            try:
                if consumer is None:
                    consumer = topics.open_consumer(settings.ENVIRONMENT.kafka_bootstrap_servers)
                    partitions = topics.topic_partitions(consumer)
                ends = {(at.topic, at.partition): end for at, end in consumer.end_offsets(partitions).items()}
                offsets = _read_offsets()
                before = {} if self.progress.value is None else self.progress.value.offsets
                moved_at |= {each: began for each, offset in offsets.items() if offset != before.get(each)}
                self.progress = SourceReading(Progress(ends, offsets, moved_at), began)
                self.traffic.add(_traffic_totals(ends, offsets))
            except FAULTS as fault:
                self.progress.fault = _describe(fault)
                connection.close()
                if consumer is not None:
                    consumer.close()
                    consumer = None
            if began - stack_at >= STACK_S:
                stack_at = began
                self._read_stack()
            time.sleep(max(0.05, FAST_S - (time.monotonic() - began)))
        if consumer is not None:
            consumer.close()

    def _read_stack(self) -> None:
        try:
            rows = read_processes()
        except FAULTS as fault:
            self.stack.fault = _describe(fault)
            return
        if rows is None:
            self.stack = SourceReading()
            return
        self.stack = SourceReading(rows, time.monotonic())
        self.marks.observe_processes(now_ms(), rows)

    def _read_redis(self) -> None:
        while self._is_watched():
            began = time.monotonic()
            faults = {each.name: find_fault(each.url) for each in redis_servers(settings.ENVIRONMENT)}
            self.redis = SourceReading(faults, began)
            time.sleep(REDIS_S)

    def _read_replicas(self) -> None:
        admin = None
        while self._is_watched():
            began = time.monotonic()
            try:
                admin = admin or replicas.connect_admin(settings.ENVIRONMENT.kafka_bootstrap_servers)
                partitions = replicas.read_replicas(admin)
                self.replicas = SourceReading(partitions, began)
                self.marks.observe_leaders(now_ms(), {(each.topic, each.partition): each.leader for each in partitions})
            except FAULTS as fault:
                self.replicas.fault = _describe(fault)
                if admin is not None:
                    admin.close()
                    admin = None
            time.sleep(max(0.1, REPLICAS_S - (time.monotonic() - began)))
        if admin is not None:
            admin.close()

    # ── what has to be counted ───────────────────────────────────────────────────────────────────

    def _read_slow(self) -> None:
        environment = settings.ENVIRONMENT
        addresses = Addresses(
            environment.kafka_bootstrap_servers, environment.database_url, environment.gate_redis_url, Path()
        )
        counter, admin = LiveCounter(addresses), None
        try:
            while self._is_watched():
                began = time.monotonic()
                try:
                    counts = queries.read_counts(now_ms())
                    self.counts = SourceReading(counts, began)
                    self.marks.add_openings(now_ms(), [(sale.id, sale.opens_at_ms) for sale in counts.sales])
                    self.marks.add_operations(queries.recent_operations())
                    self.marks.add_sold_out(queries.sold_out_times())
                except FAULTS as fault:
                    self.counts.fault = _describe(fault)
                    connection.close()
                try:
                    self.books = SourceReading(residuals(counter.count()), began)
                except FAULTS as fault:
                    self.books.fault = _describe(fault)
                try:
                    admin = admin or partition_owners.connect_admin(environment.kafka_bootstrap_servers)
                    groups = [hop.group for hop in HOPS]
                    self.owners = SourceReading(partition_owners.fetch_owners(admin, groups), began)
                except FAULTS as fault:
                    self.owners = SourceReading(fault=_describe(fault))
                    if admin is not None:
                        admin.close()
                        admin = None
                time.sleep(max(SLOW_S, (time.monotonic() - began) * PAUSE_FACTOR))
        finally:
            counter.close()
            if admin is not None:
                admin.close()


def has_several_brokers() -> bool:
    """A single broker has no replicas to show."""
    return "," in settings.ENVIRONMENT.kafka_bootstrap_servers


@lru_cache(maxsize=1)
def shared_monitor() -> BoardMonitor:
    return BoardMonitor()


def _read_offsets() -> dict[GroupPartition, int]:
    rows = ConsumerOffset.objects.values_list("group", "topic", "partition", "next_offset")
    return {(group, topic, partition): offset for group, topic, partition, offset in rows}


def _traffic_totals(ends: dict[Partition, int], offsets: dict[GroupPartition, int]) -> TrafficTotals:
    requests = {partition: end for partition, end in ends.items() if partition[0] in REQUEST_TOPICS}
    decided = sum(offsets.get(("inventory", *partition), 0) for partition in requests)
    return TrafficTotals(now_ms(), offered_total(), sum(requests.values()), decided)


def now_ms() -> int:
    return time.time_ns() // 1_000_000


def _describe(fault: Exception) -> str:
    return f"{type(fault).__name__}: {str(fault).splitlines()[0][:200] if str(fault) else ''}"
