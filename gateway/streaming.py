"""Shell: who is watching which request, and the news for them, from Redis.

A watcher holds only the latest: who reads slowly misses steps, never the end. News may be lost (Redis keeps none for
those who are away), so whoever watches also looks for himself: when the subscription is back, and from time to time.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections import Counter, defaultdict
from collections.abc import Iterator
from uuid import UUID

from django.conf import settings
from redis.asyncio import Redis
from redis.exceptions import RedisError

from gateway import shown
from gateway.outcomes import Shown

log = logging.getLogger(__name__)

AGAIN_S = 1.0
STREAMS_OF_REQUEST_MAX = 4
STREAMS_OF_ADDRESS_MAX = 32


class Watcher:
    """One stream's ear: what was heard last, or that it is better to look."""

    def __init__(self, request_id: UUID) -> None:
        self.request_id = request_id
        self._heard: str | None = None
        self._woken = asyncio.Event()

    async def listen(self, at_most_s: float) -> Shown | None:
        """News, or None: none came in time, or somebody has to look."""
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(at_most_s):
                await self._woken.wait()
        self._woken.clear()
        heard, self._heard = self._heard, None
        return None if heard is None else shown.decode(self.request_id, heard)

    def tell(self, value: str | None) -> None:
        self._heard = value
        self._woken.set()


class Newsroom:
    """One subscription for all streams of this process."""

    def __init__(self, most: int) -> None:
        self._most = most
        self._of_address: Counter[str] = Counter()
        self._watching: defaultdict[str, set[Watcher]] = defaultdict(set)
        self._count = 0

    @property
    def is_full(self) -> bool:
        return self._count >= self._most

    def has_room(self, request_id: UUID, address: str) -> bool:
        """For one more stream of this request, to this address."""
        is_shared = len(self._watching.get(str(request_id), ())) < STREAMS_OF_REQUEST_MAX
        return is_shared and self._of_address[address] < STREAMS_OF_ADDRESS_MAX and not self.is_full

    @contextlib.contextmanager
    def watching(self, request_id: UUID, address: str = "") -> Iterator[Watcher]:
        watcher = Watcher(request_id)
        name = str(request_id)
        self._of_address[address] += 1
        self._watching[name].add(watcher)
        self._count += 1
        try:
            yield watcher
        finally:
            self._count -= 1
            self._of_address[address] -= 1
            if not self._of_address[address]:
                del self._of_address[address]
            self._watching[name].discard(watcher)
            if not self._watching[name]:
                del self._watching[name]

    async def run(self) -> None:
        """Until it is cancelled."""
        while True:
            try:
                await self._hear()
            except (RedisError, OSError) as fault:
                log.warning("no news", extra={"reason": str(fault)})
                await asyncio.sleep(AGAIN_S)

    async def _hear(self) -> None:
        url = settings.ENVIRONMENT.admission_redis_url
        client: Redis = Redis.from_url(url, decode_responses=True, socket_connect_timeout=2, health_check_interval=5)
        try:
            async with client.pubsub() as news:
                await news.subscribe(shown.NEWS)
                self.wake_all()  # what was said while nobody listened
                while True:
                    message = await news.get_message(ignore_subscribe_messages=True, timeout=1.0)
                    if message is not None:
                        self.spread(message["data"])
        finally:
            await client.aclose()

    def spread(self, news: str) -> None:
        for line in news.split("\n"):
            request_id, _, value = line.partition("|")
            for watcher in self._watching.get(request_id, ()):
                watcher.tell(value)

    def wake_all(self) -> None:
        for watchers in self._watching.values():
            for watcher in watchers:
                watcher.tell(None)
