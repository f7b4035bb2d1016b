"""Shell: measures the queue twice a second: the log's end offsets in the broker against inventory's offsets in
Postgres.

The rows are authoritative. The offsets that the group commits to the broker are only a copy, and one lost commit would
show a queue that does not exist. A partition that does not answer is left out.
"""

from __future__ import annotations

import logging
import threading
import time
from functools import lru_cache

from django.conf import settings
from django.db import Error as DatabaseError
from django.db import close_old_connections
from kafka import KafkaAdminClient
from kafka.errors import KafkaError

from gateway import redis_clock
from gateway.backlog import Backlog, Estimate
from seckill.config.kafka_clients import client_options
from seckill.messaging import log_bounds, offsets
from seckill.messaging.record_position import RecordPosition
from seckill.messaging.topics import REQUEST_TOPICS
from seckill.resilience.circuit_breaker import Permit

log = logging.getLogger(__name__)

MEASURE_INTERVAL_S = 0.5
RETRY_S = 2.0
REQUEST_TIMEOUT_MS = 3000
GROUP = "inventory"


class BacklogMonitor:
    """Its daemon thread starts with the first call of any method. A test turns it off with `runs_thread`."""

    def __init__(self, *, runs_thread: bool = True) -> None:
        self.runs_thread = runs_thread
        self.backlog = Backlog(_pace=settings.ENVIRONMENT.expected_pace or None)
        self._starting = threading.Lock()
        self._is_started = False

    def wait_ms(self, topic: str) -> int | None:
        self._start()
        return self.backlog.wait_ms(topic, time.monotonic())

    def permit(self, topic: str) -> Permit:
        """The backlog guard; see `Backlog.permit`."""
        self._start()
        return self.backlog.permit(topic, settings.ENVIRONMENT.purchase_deadline_s * 1000, time.monotonic())

    def undecided(self) -> dict[str, int]:
        """Requests by topic; empty while nothing can be measured."""
        self._start()
        return self.backlog.undecided if self.backlog.is_fresh(time.monotonic()) else {}

    def estimate(self, position: RecordPosition) -> Estimate | None:
        self._start()
        return self.backlog.estimate(position, time.monotonic())

    def is_queued(self, position: RecordPosition) -> bool:
        """True if the request at this position is certainly undecided; False if it may be decided."""
        self._start()
        return self.backlog.is_fresh(time.monotonic()) and not self.backlog.is_decided(position)

    def observed_ms(self) -> float:
        """When inventory's progress was last read, by Redis' clock."""
        return redis_clock.now_ms() - (time.monotonic() - self.backlog.observed_at) * 1000

    def _start(self) -> None:
        if self._is_started or not self.runs_thread:
            return
        with self._starting:
            if not self._is_started:
                threading.Thread(target=self._run, name="backlog", daemon=True).start()
                self._is_started = True

    def _run(self) -> None:
        while True:
            try:
                self._measure_repeatedly()
            except (DatabaseError, KafkaError, OSError, ValueError, KeyError) as fault:
                log.info("cannot measure the queue", extra={"reason": f"{type(fault).__name__}: {fault}"})
                close_old_connections()
                time.sleep(RETRY_S)

    def _measure_repeatedly(self) -> None:
        admin = KafkaAdminClient(
            **client_options(settings.ENVIRONMENT.kafka_bootstrap_servers),
            client_id="gateway-backlog",
            request_timeout_ms=REQUEST_TIMEOUT_MS,
        )
        try:
            self._cluster_id = str(admin.describe_cluster()["cluster_id"])
            while True:
                self._measure(admin)
                time.sleep(MEASURE_INTERVAL_S)
        finally:
            admin.close()

    def _measure(self, admin: KafkaAdminClient) -> None:
        topic_ids = [str(topic["topic_id"]) for topic in admin.describe_topics(list(REQUEST_TOPICS))]
        # The group's offsets are read before the ends, so they are never beyond them.
        decided = offsets.group_offsets(GROUP, self._cluster_id, topic_ids)
        close_old_connections()
        ends = log_bounds.end_offsets(admin, log_bounds.online_partitions(admin, REQUEST_TOPICS))
        decided |= log_bounds.start_offsets(admin, [partition for partition in ends if partition not in decided])
        self.backlog.observe(
            time.monotonic(),
            {(at.topic, at.partition): end for at, end in ends.items()},
            {(at.topic, at.partition): offset for at, offset in decided.items()},
        )


@lru_cache(maxsize=1)
def shared_monitor() -> BacklogMonitor:
    """One for the process, because all its requests wait in the same queue."""
    return BacklogMonitor()
