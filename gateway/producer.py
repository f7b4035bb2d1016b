"""Shell: the writer of purchase.requests: a producer on the event loop, and the lease on the slots it sends by.

A record that is not acknowledged within `DELIVERY_SECONDS_MAX` fails and is not sent any more, which slot moves rely on
(docs/decisions/0035-a-producer-on-the-loop.md).
"""

from __future__ import annotations

import asyncio
import logging
import os

from django.conf import settings

from gateway.batch_producer import BatchProducer
from seckill.config.kafka_clients import client_options
from seckill.messaging.slots import SlotWriter
from seckill.messaging.topics import PURCHASE_REQUESTS, REQUEST_TOPICS

log = logging.getLogger(__name__)

RETRY_S = 1.0
FLUSH_SECONDS_MAX = 3.0


def make_producer() -> BatchProducer:
    options = client_options(settings.ENVIRONMENT.kafka_bootstrap_servers)
    return BatchProducer({**options, "client_id": "gateway"}, list(REQUEST_TOPICS))


class QueueProducer:
    """No other process writes purchase.requests. `writer` is None until the lease has been taken."""

    def __init__(self) -> None:
        self.writer: SlotWriter | None = None
        self._producer = make_producer()

    async def run(self) -> None:
        """Connect and take the lease, which is repeated until it succeeds; then send, until cancelled."""
        writer: SlotWriter | None = None
        while self.writer is None:
            try:
                if writer is None:
                    await self._producer.connect()
                    writer = SlotWriter(PURCHASE_REQUESTS, f"gateway.{os.getpid()}", self._producer)
                await asyncio.to_thread(writer.start)
                self.writer = writer
            except Exception as fault:
                log.warning("the queue is unavailable", extra={"reason": f"{type(fault).__name__}: {fault}"})
                await asyncio.sleep(RETRY_S)
        await self._producer.run()

    async def close(self) -> None:
        """Give up the lease once everything that was sent is settled."""
        await self._producer.close(FLUSH_SECONDS_MAX)  # buyers send again what is not acknowledged by now
        if self.writer is not None:
            await asyncio.to_thread(self.writer.close)
