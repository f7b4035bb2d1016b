"""Shell: looks at the running sale for whoever has the console open, and remembers the last five minutes.

Two threads begin with the first question and end a minute after the last one: a quick one, four times a second, that
costs a few reads of heads and offsets; a slow one for what has to be counted, which rests nine times as long as it
worked. What cannot be read stands there with its age; nothing is made up for it.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import Path
from typing import Any

import psycopg
from django.conf import settings
from django.db import Error as DatabaseError
from django.db import connection
from kafka.errors import KafkaError
from redis.exceptions import RedisError

from gateway import offered
from seckill.consistency.live.counting import Counter
from seckill.consistency.live.residuals import Residual, residuals
from seckill.consistency.sources import topics
from seckill.consistency.sources.collect import Addresses
from seckill.console import counting, owners
from seckill.console.marks import Marks
from seckill.console.peak import Peak, Point
from seckill.console.words import HOPS
from seckill.stack import control
from seckill.stack.services import Layout
from seckill.streams.models import ConsumerOffset
from seckill.topics import QUEUES

log = logging.getLogger(__name__)

QUICK_S, SLOW_S = 0.25, 2.0
REST = 9
STACK_S = 1.0
ALONE_S = 60.0
AWAY = (DatabaseError, psycopg.Error, KafkaError, RedisError, OSError, ValueError, KeyError)

Place = tuple[str, int]  # topic, partition
Reached = dict[tuple[str, str, int], int]  # group, topic, partition


@dataclass(slots=True)
class Look:
    """What one source said last, when, and why it says nothing now."""

    said: Any = None
    at: float = float("-inf")
    fault: str = ""

    def age_s(self, now: float) -> float | None:
        return None if self.said is None else round(now - self.at, 1)


@dataclass(slots=True)
class Watching:
    quick: Look = field(default_factory=Look)  # {"ends": …, "reached": …, "moved": …}
    counts: Look = field(default_factory=Look)  # of counting.Counted
    books: Look = field(default_factory=Look)  # list[Residual]
    owners: Look = field(default_factory=Look)  # owners.Owners
    stack: Look = field(default_factory=Look)  # rows of the supervisor
    peak: Peak = field(default_factory=Peak)
    marks: Marks = field(default_factory=Marks)
    _asked_at: float = float("-inf")
    _running: set[str] = field(default_factory=set)
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def ask(self) -> None:
        """Somebody looks: so we do."""
        self._asked_at = time.monotonic()
        with self._lock:
            for name, work in (("board quick", self._quick), ("board slow", self._slow)):
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
        return time.monotonic() - self._asked_at < ALONE_S

    # ── four times a second ──────────────────────────────────────────────────────────────────────

    def _quick(self) -> None:
        consumer, places, stack_at = None, [], float("-inf")
        moved: dict[tuple[str, str, int], float] = {}
        while self._is_watched():
            began = time.monotonic()
            try:
                if consumer is None:
                    consumer = topics.reader(settings.ENVIRONMENT.kafka_bootstrap_servers)
                    places = topics.partitions(consumer)
                ends = {(at.topic, at.partition): end for at, end in consumer.end_offsets(places).items()}
                reached = _reached()
                before = (self.quick.said or {}).get("reached", {})
                for which, offset in reached.items():
                    if offset != before.get(which):
                        moved[which] = began
                self.quick = Look({"ends": ends, "reached": reached, "moved": moved}, began)
                self.peak.add(_point(ends, reached))
            except AWAY as fault:
                self.quick.fault = _told(fault)
                connection.close()
                if consumer is not None:
                    consumer.close()
                    consumer = None
            if began - stack_at >= STACK_S:
                stack_at = began
                self._look_at_stack()
            time.sleep(max(0.05, QUICK_S - (time.monotonic() - began)))
        if consumer is not None:
            consumer.close()

    def _look_at_stack(self) -> None:
        if not settings.ENVIRONMENT.stack_folder:
            return
        try:
            rows = control.ask(Layout(Path(settings.ENVIRONMENT.stack_folder)), {"word": "status"})["instances"]
        except (OSError, KeyError, ValueError) as fault:
            self.stack.fault = _told(fault)
            return
        self.stack = Look(rows, time.monotonic())
        self.marks.see(_now_ms(), rows)

    # ── what has to be counted ───────────────────────────────────────────────────────────────────

    def _slow(self) -> None:
        environment = settings.ENVIRONMENT
        where = Addresses(
            environment.kafka_bootstrap_servers, environment.database_url, environment.gate_redis_url, Path()
        )
        counter, admin = Counter(where), None
        try:
            while self._is_watched():
                began = time.monotonic()
                try:
                    self.counts = Look(counting.count(), began)
                    self.marks.spoken(counting.spoken(), counting.sold_out())
                except AWAY as fault:
                    self.counts.fault = _told(fault)
                    connection.close()
                try:
                    found: list[Residual] = residuals(counter.look())
                    self.books = Look(found, began)
                except AWAY as fault:
                    self.books.fault = _told(fault)
                try:
                    admin = admin or owners.admin(environment.kafka_bootstrap_servers)
                    self.owners = Look(owners.owners(admin, [hop.group for hop in HOPS]), began)
                except AWAY as fault:
                    self.owners = Look(fault=_told(fault))
                    if admin is not None:
                        admin.close()
                        admin = None
                took_s = time.monotonic() - began
                time.sleep(max(SLOW_S, took_s * REST))
        finally:
            counter.close()
            if admin is not None:
                admin.close()


@lru_cache(maxsize=1)
def watching() -> Watching:
    return Watching()


def _reached() -> Reached:
    rows = ConsumerOffset.objects.values_list("group", "topic", "partition", "next_offset")
    return {(group, topic, partition): offset for group, topic, partition, offset in rows}


def _point(ends: dict[Place, int], reached: Reached) -> Point:
    requests = {place: end for place, end in ends.items() if place[0] in QUEUES}
    decided = sum(reached.get(("inventory", *place), 0) for place in requests)
    return Point(_now_ms(), offered.total(), sum(requests.values()), decided)


def _now_ms() -> int:
    return time.time_ns() // 1_000_000


def _told(fault: Exception) -> str:
    return f"{type(fault).__name__}: {str(fault).splitlines()[0][:200] if str(fault) else ''}"
