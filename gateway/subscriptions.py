"""Shell: the open event streams by request, and one Redis subscription that notifies them.

A subscriber keeps only the latest outcome: a slow reader misses steps, but never the last one. Notifications may be
lost, because Redis keeps none for a subscriber that is away. So every stream also reads the status itself, when the
subscription is restored and from time to time.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections import Counter, defaultdict
from collections.abc import Iterator
from uuid import UUID

from django.conf import settings
from redis.exceptions import RedisError

from gateway import outcome_cache
from gateway.outcomes import PurchaseOutcome
from seckill.resilience import redis_client

log = logging.getLogger(__name__)

RECONNECT_S, CONNECT_S = 1.0, 2.0
STREAMS_OF_REQUEST_MAX = 4
STREAMS_OF_ADDRESS_MAX = 32


class Subscriber:
    """One stream's view of one request."""

    def __init__(self, request_id: UUID) -> None:
        self.request_id = request_id
        self.is_ended = False  # the client has disconnected, or the process stops
        self._latest: str | None = None
        self._woken = asyncio.Event()

    async def next_outcome(self, timeout_s: float) -> PurchaseOutcome | None:
        """The latest outcome; None after the timeout, or if the status has to be read because messages were missed."""
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(timeout_s):
                await self._woken.wait()
        self._woken.clear()
        latest, self._latest = self._latest, None
        return None if latest is None else outcome_cache.decode_outcome(self.request_id, latest)

    def notify(self, value: str | None) -> None:
        """`value` None: wake up without an outcome."""
        self._latest = value
        self._woken.set()

    def end(self) -> None:
        self.is_ended = True
        self._woken.set()


class StreamHub:
    """All streams of this process, fed by one subscription."""

    def __init__(self, streams_max: int) -> None:
        self._streams_max = streams_max
        self._of_address: Counter[str] = Counter()
        self._subscribers: defaultdict[str, set[Subscriber]] = defaultdict(set)
        self.stream_count = 0
        self._is_closed = False

    @property
    def is_full(self) -> bool:
        return self._is_closed or self.stream_count >= self._streams_max

    def has_room(self, request_id: UUID, address: str) -> bool:
        """Is one more stream of this request to this address allowed?"""
        has_room = len(self._subscribers.get(str(request_id), ())) < STREAMS_OF_REQUEST_MAX
        return has_room and self._of_address[address] < STREAMS_OF_ADDRESS_MAX and not self.is_full

    @contextlib.contextmanager
    def subscribed(self, request_id: UUID, address: str = "") -> Iterator[Subscriber]:
        subscriber = Subscriber(request_id)
        name = str(request_id)
        self._of_address[address] += 1
        self._subscribers[name].add(subscriber)
        self.stream_count += 1
        try:
            yield subscriber
        finally:
            self.stream_count -= 1
            self._of_address[address] -= 1
            if not self._of_address[address]:
                del self._of_address[address]
            self._subscribers[name].discard(subscriber)
            if not self._subscribers[name]:
                del self._subscribers[name]

    def close(self) -> None:
        """End all streams and accept no more."""
        self._is_closed = True
        for subscribers in self._subscribers.values():
            for subscriber in subscribers:
                subscriber.end()

    async def run(self) -> None:
        """Stay subscribed until cancelled."""
        while True:
            try:
                await self._receive()
            except (RedisError, OSError) as fault:
                log.warning("lost the subscription to outcomes", extra={"reason": str(fault)})
                await asyncio.sleep(RECONNECT_S)

    async def _receive(self) -> None:
        url = settings.ENVIRONMENT.admission_redis_url
        client = redis_client.connect_subscriber(url, CONNECT_S)
        try:
            async with client.pubsub() as channel:
                await channel.subscribe(outcome_cache.CHANNEL)
                self.wake_all()  # messages before this moment were missed
                while True:
                    message = await channel.get_message(ignore_subscribe_messages=True, timeout=1.0)
                    if message is not None:
                        self.dispatch(message["data"])
        finally:
            await client.aclose()

    def dispatch(self, message: str) -> None:
        for line in message.split("\n"):
            request_id, _, value = line.partition("|")
            for subscriber in self._subscribers.get(request_id, ()):
                subscriber.notify(value)

    def wake_all(self) -> None:
        for subscribers in self._subscribers.values():
            for subscriber in subscribers:
                subscriber.notify(None)
