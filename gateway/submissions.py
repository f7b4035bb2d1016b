"""Into the queue: a request is accepted only when the broker has acknowledged it.

When the outcome of a produce is unknown nobody says "failed": the buyer is asked to try again, and his same request is
the same event. At most three quarters of the threads wait here; a stalled broker costs purchases and nothing else.
"""

from __future__ import annotations

import threading
import time
from functools import lru_cache
from typing import NamedTuple

from django.conf import settings
from kafka import KafkaProducer
from kafka.errors import KafkaError

from gateway.events import PurchaseRequested
from seckill.problems import Problem
from seckill.topics import PURCHASE_REQUESTS

THREADS = 64
ACK_S = 3.0
BREAK_S = 1.0


class Place(NamedTuple):
    """Where the request stands in the log."""

    partition: int
    offset: int


class Breaker:
    """Open for a moment after a produce that went wrong: then nobody waits for what will not come."""

    def __init__(self) -> None:
        self._open_until = 0.0

    def is_open(self) -> bool:
        return time.monotonic() < self._open_until

    def trip(self) -> None:
        self._open_until = time.monotonic() + BREAK_S


_waiting = threading.BoundedSemaphore(THREADS * 3 // 4)
_breaker = Breaker()
_making = threading.Lock()


@lru_cache(maxsize=1)
def _make_producer() -> KafkaProducer:
    return KafkaProducer(
        bootstrap_servers=settings.ENVIRONMENT.kafka_bootstrap_servers,
        client_id="gateway",
        acks="all",
        enable_idempotence=True,
        linger_ms=2,
        max_block_ms=1000,
        request_timeout_ms=5_000,
        delivery_timeout_ms=10_000,
    )


def producer() -> KafkaProducer:
    with _making:
        return _make_producer()


def submit(requested: PurchaseRequested) -> Place:
    """Acknowledged by the broker, or a 503 that says to try again."""
    if _breaker.is_open() or not _waiting.acquire(blocking=False):
        raise Problem(503, "queue-unavailable", "The queue takes nothing just now.", retry_after_s=1)
    try:
        sent = producer().send(
            PURCHASE_REQUESTS.name, key=requested.user_id.encode(), value=requested.envelope().encode()
        )
        acknowledged = sent.get(timeout=ACK_S)
    except KafkaError as fault:
        _breaker.trip()
        detail = "It is not known whether your request was queued. Send it again, under the same key."
        raise Problem(503, "queue-unknown", detail, retry_after_s=1) from fault
    finally:
        _waiting.release()
    return Place(acknowledged.partition, acknowledged.offset)
