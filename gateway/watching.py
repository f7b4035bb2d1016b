"""Shell: measures the queue twice a second: the log's ends in the broker against inventory's offsets in the database.

The rows are the truth; the offsets that the group commits to the broker are a copy, and one lost commit would show a
queue that is not there. A partition that does not answer is left out: nothing is known of it.
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

from gateway.backlog import Backlog, Estimate
from gateway.places import Place
from seckill.breaker import Permit
from seckill.streams import bounds, offsets
from seckill.topics import QUEUES

log = logging.getLogger(__name__)

LOOK_S = 0.5
AGAIN_S = 2.0
PATIENCE_MS = 3000
GROUP = "inventory"


class Watch:
    """The thread begins with the first question, and ends with the process."""

    def __init__(self) -> None:
        self.backlog = Backlog(_pace=settings.ENVIRONMENT.expected_pace or None)
        self._starting = threading.Lock()
        self._is_started = False

    def wait_ms(self, topic: str) -> int | None:
        self._start()
        return self.backlog.wait_ms(topic, time.monotonic())

    def permit(self, topic: str) -> Permit:
        """The backlog guard, as `Backlog.permit`."""
        self._start()
        return self.backlog.permit(topic, settings.ENVIRONMENT.purchase_deadline_s * 1000, time.monotonic())

    def undecided(self) -> dict[str, int]:
        """Of each topic; nothing while it cannot be seen."""
        self._start()
        return self.backlog.undecided if self.backlog.knows(time.monotonic()) else {}

    def estimate(self, place: Place) -> Estimate | None:
        self._start()
        return self.backlog.estimate(place, time.monotonic())

    def is_queued(self, place: Place) -> bool:
        """Certainly not decided yet. False: it may be."""
        self._start()
        return self.backlog.knows(time.monotonic()) and not self.backlog.is_decided(place)

    def _start(self) -> None:
        if self._is_started:
            return
        with self._starting:
            if not self._is_started:
                threading.Thread(target=self._run, name="backlog", daemon=True).start()
                self._is_started = True

    def _run(self) -> None:
        while True:
            try:
                self._watch()
            except (DatabaseError, KafkaError, OSError, ValueError, KeyError) as fault:
                log.info("the queue cannot be seen", extra={"reason": f"{type(fault).__name__}: {fault}"})
                close_old_connections()
                time.sleep(AGAIN_S)

    def _watch(self) -> None:
        admin = KafkaAdminClient(
            bootstrap_servers=settings.ENVIRONMENT.kafka_bootstrap_servers,
            client_id="gateway-backlog",
            request_timeout_ms=PATIENCE_MS,
        )
        try:
            self._cluster_id = str(admin.describe_cluster()["cluster_id"])
            while True:
                self._look(admin)
                time.sleep(LOOK_S)
        finally:
            admin.close()

    def _look(self, admin: KafkaAdminClient) -> None:
        topic_ids = [str(topic["topic_id"]) for topic in admin.describe_topics(list(QUEUES))]
        # The group first: so its offsets are never beyond the ends.
        decided = offsets.positions(GROUP, self._cluster_id, topic_ids)
        close_old_connections()
        ends = bounds.ends(admin, bounds.online(admin, QUEUES))
        decided |= bounds.starts(admin, [partition for partition in ends if partition not in decided])
        self.backlog.observe(
            time.monotonic(),
            {(at.topic, at.partition): end for at, end in ends.items()},
            {(at.topic, at.partition): offset for at, offset in decided.items()},
        )


@lru_cache(maxsize=1)
def watch() -> Watch:
    return Watch()
