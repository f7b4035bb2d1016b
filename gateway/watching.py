"""Shell: looks twice a second how far inventory has come, for everybody in this process who asks about the queue."""

from __future__ import annotations

import logging
import threading
import time
from functools import lru_cache

from django.conf import settings
from kafka import KafkaAdminClient, TopicPartition
from kafka.admin import OffsetSpec
from kafka.errors import KafkaError

from gateway.backlog import Backlog, Estimate
from gateway.places import Place
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
            except (KafkaError, OSError, ValueError, KeyError) as fault:
                log.info("the queue cannot be seen", extra={"reason": f"{type(fault).__name__}: {fault}"})
                time.sleep(AGAIN_S)

    def _watch(self) -> None:
        admin = KafkaAdminClient(
            bootstrap_servers=settings.ENVIRONMENT.kafka_bootstrap_servers,
            client_id="gateway-backlog",
            request_timeout_ms=PATIENCE_MS,
        )
        try:
            while True:
                partitions = _partitions(admin)
                # The group first: so its offsets are never beyond the ends.
                committed = admin.list_group_offsets({GROUP: partitions})[GROUP]
                ends = admin.list_partition_offsets(dict.fromkeys(partitions, OffsetSpec.LATEST))
                self.backlog.observe(
                    time.monotonic(),
                    {(at.topic, at.partition): found.offset for at, found in ends.items()},
                    {(at.topic, at.partition): max(0, found.offset) for at, found in committed.items()},
                )
                time.sleep(LOOK_S)
        finally:
            admin.close()


def _partitions(admin: KafkaAdminClient) -> list[TopicPartition]:
    described = admin.describe_topics(list(QUEUES))
    return [
        TopicPartition(topic["name"], each["partition_index"]) for topic in described for each in topic["partitions"]
    ]


@lru_cache(maxsize=1)
def watch() -> Watch:
    return Watch()
