"""Shell: what Django's threads need of the event loop: buy, read a status, and see whether the queue is available.

There is one purchase path and one way to read a status, both on the loop. A page waits for them on its thread.
"""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from concurrent.futures import TimeoutError as FutureTimeout
from threading import BoundedSemaphore
from typing import Any, TypeVar
from uuid import UUID

from gateway import purchase_status
from gateway.purchase import Accepted, PurchaseCall, Purchases
from gateway.purchase_status import PurchaseStatus
from gateway.refusals import queue_unavailable
from gateway.signed_positions import SignedPosition

THREADS = 48
"""Django's threads (gateway/django_threads.py). Purchases from pages may use three quarters of them."""
LOOP_SECONDS_MAX = 10.0

Result = TypeVar("Result")

_places = BoundedSemaphore(THREADS * 3 // 4)
_loop: asyncio.AbstractEventLoop | None = None
_purchases: Purchases | None = None


def connect(loop: asyncio.AbstractEventLoop, purchases: Purchases) -> None:
    """Called once, when the loop starts."""
    global _loop, _purchases
    _loop, _purchases = loop, purchases


def buy(call: PurchaseCall) -> Accepted:
    """`Purchases.buy`, for a page. Raises `Problem`."""
    if _purchases is None or not _places.acquire(blocking=False):
        raise queue_unavailable()
    try:
        return _wait_for(_purchases.buy(call))
    finally:
        _places.release()


def fetch_status(request_id: UUID, signed: SignedPosition | None) -> PurchaseStatus | None:
    return _wait_for(purchase_status.fetch_status(request_id, signed))


def is_queue_connected() -> bool:
    return _purchases is not None and _purchases.queue.producer.writer is not None


def _wait_for(coroutine: Coroutine[Any, Any, Result]) -> Result:
    assert _loop is not None, "the event loop has not started"
    future = asyncio.run_coroutine_threadsafe(coroutine, _loop)
    try:
        return future.result(LOOP_SECONDS_MAX)
    except FutureTimeout:
        future.cancel()
        raise
