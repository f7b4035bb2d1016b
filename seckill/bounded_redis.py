"""Shell: clients of Redis that wait once, and shortly. A Redis that hangs costs one timeout; then nothing is asked for
a while, and each call fails at once with a `RedisError`, as if Redis had refused it."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from redis import ConnectionPool, Redis
from redis.backoff import NoBackoff
from redis.exceptions import ConnectionError as RedisConnectionError
from redis.exceptions import TimeoutError as RedisTimeoutError
from redis.retry import Retry

from seckill.breaker import Breaker, State

TIMEOUT_S = 1.0
OPEN_S = 5.0


class NotAsked(RedisTimeoutError):
    """It did not answer a moment ago."""


class _Bounded:
    """Mixed into a connection: it knows the breaker of its client."""

    breaker: Breaker

    def connect(self, *arguments: Any, **named: Any) -> Any:
        with self._watched():
            return super().connect(*arguments, **named)  # type: ignore[misc]

    def send_packed_command(self, *arguments: Any, **named: Any) -> Any:
        with self._watched():
            return super().send_packed_command(*arguments, **named)  # type: ignore[misc]

    def read_response(self, *arguments: Any, **named: Any) -> Any:
        with self._watched():
            return super().read_response(*arguments, **named)  # type: ignore[misc]

    @contextmanager
    def _watched(self) -> Iterator[None]:
        if self.breaker.state(time.monotonic()) is State.OPEN:
            raise NotAsked("Redis did not answer a moment ago")
        try:
            yield
        except RedisTimeoutError:
            self.breaker.failed(time.monotonic())
            raise
        self.breaker.succeeded()


def connect(url: str, timeout_s: float = TIMEOUT_S, open_s: float | None = None) -> Redis:
    """Tries a lost connection once more, and a timeout never."""
    once = Retry(NoBackoff(), 1, supported_errors=(RedisConnectionError,))
    pool = ConnectionPool.from_url(
        url, socket_timeout=timeout_s, socket_connect_timeout=timeout_s, decode_responses=True, retry=once
    )
    breaker = Breaker(most_failures=1, open_s=OPEN_S if open_s is None else open_s)
    pool.connection_class = type("Bounded", (_Bounded, pool.connection_class), {"breaker": breaker})
    client: Redis = Redis(connection_pool=pool)
    return client
