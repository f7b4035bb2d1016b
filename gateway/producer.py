"""Shell: kafka-python's producer behind the event loop.

The producer works on a thread of its own. Its acknowledgements reach the loop in one wake-up for each batch. A record
that is not acknowledged within `DELIVERY_SECONDS_MAX` fails and is not sent any more, which slot moves rely on
(docs/decisions/0030-one-process-one-loop.md).
"""

from __future__ import annotations

import asyncio
import logging
import os
from collections import deque
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from typing import Any, TypeVar

from django.conf import settings
from kafka import KafkaProducer
from kafka.errors import KafkaError

from seckill.messaging.slots import DELIVERY_SECONDS_MAX, SlotWriter
from seckill.messaging.topics import PURCHASE_REQUESTS

log = logging.getLogger(__name__)

RETRY_S = 1.0
FLUSH_SECONDS_MAX = 3.0

Token = TypeVar("Token")
Headers = list[tuple[str, bytes]]


def connect_producer() -> KafkaProducer:
    """Blocks until the broker answers. Raises `KafkaError`."""
    return KafkaProducer(
        bootstrap_servers=settings.ENVIRONMENT.kafka_bootstrap_servers,
        client_id="gateway",
        acks="all",
        # With one partition offline, kafka-python 3.0.12 sends to none if it is idempotent. One request in flight keeps
        # the order of a user's requests, and inventory drops a repeated one by its id.
        enable_idempotence=False, max_in_flight_requests_per_connection=1, linger_ms=2,
        metrics_enabled=False,  # nothing reads them, and they cost a fifth of the thread's time
        max_block_ms=1000,
        request_timeout_ms=5_000,
        delivery_timeout_ms=int(DELIVERY_SECONDS_MAX * 1000),
        metadata_max_age_ms=5_000,  # added partitions are known soon
    )  # fmt: skip


class QueueProducer:
    """Writes purchase.requests; no other process does. `start` must have ended before `send` is called."""

    def __init__(self) -> None:
        self.writer: SlotWriter | None = None
        self._producer: KafkaProducer | None = None
        self._settled: deque[Callable[[], None]] = deque()
        self._is_waking = False

    async def start(self) -> None:
        """Connect and take the slot lease, on a thread; repeats until it succeeds."""
        self._loop = asyncio.get_running_loop()
        writer: SlotWriter | None = None
        while self.writer is None:
            try:
                if writer is None:
                    self._producer = await asyncio.to_thread(connect_producer)
                    writer = SlotWriter(PURCHASE_REQUESTS, f"gateway.{os.getpid()}", self._producer)
                await asyncio.to_thread(writer.start)
                self.writer = writer
            except Exception as fault:
                log.warning("the queue is unavailable", extra={"reason": f"{type(fault).__name__}: {fault}"})
                await asyncio.sleep(RETRY_S)

    def send(self, key: bytes, value: bytes, headers: Headers, on_settled: Callable[[Any], None]) -> None:
        """Returns at once. `on_settled` is called on the loop with the record's metadata or with an exception.

        Raises `SlotUnavailable` or `KafkaError` if the record was not sent.
        """
        assert self.writer is not None
        self.writer.send(key, value, headers, partial(self._settle, on_settled))

    def close(self) -> None:
        """Give up the lease once everything that was sent is settled. Blocks."""
        if self._producer is not None:
            with suppress(KafkaError):  # buyers send again what is not acknowledged by now
                self._producer.close(timeout=FLUSH_SECONDS_MAX)
        if self.writer is not None:
            self.writer.close()

    def _settle(self, on_settled: Callable[[Any], None], outcome: Any) -> None:
        """On the producer's thread, once for each record of an acknowledged batch."""
        self._settled.append(partial(on_settled, outcome))
        if not self._is_waking:
            self._is_waking = True
            self._loop.call_soon_threadsafe(self._run_settled)

    def _run_settled(self) -> None:
        self._is_waking = False  # before the deque is read, so that no later record is left behind
        while self._settled:
            self._settled.popleft()()
