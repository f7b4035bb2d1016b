"""The gateway's event loop on a thread of the test process, and clients that call the real application on it.

Only the transport is missing: a request enters `Gateway.__rsgi__` as Granian would call it. Addresses that Django
serves go to Django's own test client, so that they use the test's database connection.
"""

from __future__ import annotations

import asyncio
import json
import threading
from collections.abc import Callable, Coroutine, Iterator, Sequence
from contextlib import contextmanager
from types import SimpleNamespace
from typing import Any, TypeVar
from uuid import UUID

import pytest
from django.db.backends.utils import CursorWrapper
from django.http import HttpResponse
from django.test import Client

from gateway import admission, from_threads, outcome_cache, purchase_status
from gateway.admission import AdmissionRequest, AdmissionResult
from gateway.breakers import Partition
from gateway.producer import QueueProducer
from gateway.routes import Gateway
from seckill.messaging.record_position import RecordPosition

TOPIC = "purchase.requests"
PATIENCE_S = 60

Result = TypeVar("Result")


LOOP = asyncio.new_event_loop()
threading.Thread(target=LOOP.run_forever, name="the gateway's loop", daemon=True).start()


def on_loop(coroutine: Coroutine[Any, Any, Result]) -> Result:
    return asyncio.run_coroutine_threadsafe(coroutine, LOOP).result(PATIENCE_S)


def admit_requests(
    requests: Sequence[AdmissionRequest], placed: Sequence[tuple[UUID, RecordPosition]] = ()
) -> list[AdmissionResult]:
    return on_loop(admission.admit_requests(requests, placed))


def forget_connections() -> None:
    """The next call connects to the Redis of the present settings."""
    for cache in (
        admission.redis_connection, admission.loop_redis_connection, outcome_cache._batches, purchase_status._table,
    ):  # fmt: skip
        cache.cache_clear()


class AcknowledgingWriter:
    """In place of the slot writer: acknowledges every record at once, one offset after the other."""

    def __init__(self) -> None:
        self.offsets = 0

    def send(self, key: bytes, value: bytes, headers: object, on_settled: Callable[[Any], None]) -> None:
        self.offsets += 1
        LOOP.call_soon_threadsafe(on_settled, RecordPosition(TOPIC, 0, self.offsets - 1))

    def topic_for(self, key: bytes) -> str:
        return TOPIC

    def partition_for(self, key: bytes) -> Partition | None:
        return TOPIC, 0


def make_producer(writer: Any) -> QueueProducer:
    producer = QueueProducer()
    producer.writer = writer
    return producer


def make_gateway(writer: Any = None) -> Gateway:
    """The application without its background tasks; pages use it, too."""
    gateway = Gateway(connections_max=4096)
    gateway.purchases.queue.producer = make_producer(writer or AcknowledgingWriter())
    gateway._loop = LOOP
    from_threads.connect(LOOP, gateway.purchases)
    return gateway


class Scope(SimpleNamespace):
    """Granian's scope of a request. Names of headers are in lower case."""

    def __init__(self, method: str, path: str, headers: Sequence[tuple[str, str]] = (), **different: Any) -> None:
        path, _, query = path.partition("?")
        super().__init__(
            **{
                "proto": "http", "http_version": "1.1", "client": "127.0.0.1:4711", "scheme": "http", "method": method,
                "path": path, "query_string": query, "authority": None,
                "headers": SimpleNamespace(items=lambda: list(headers), keys=lambda: [name for name, _ in headers]),
            }
            | different
        )  # fmt: skip


class Protocol:
    """Granian's protocol of a request: the body, and the response."""

    def __init__(self, body: bytes = b"") -> None:
        self._body = body
        self.status = 0
        self.headers: list[tuple[str, str]] = []
        self.content = b""
        self.is_closed = False

    async def __call__(self) -> bytes:
        return self._body

    def response_bytes(self, status: int, headers: list[tuple[str, str]], body: bytes) -> None:
        self.status, self.headers, self.content = status, headers, body

    def close(self, status: int | None) -> None:
        self.is_closed = True


class ApiClient(Client):
    """Django's test client for the addresses that Django serves; the others go to the gateway's loop."""

    def __init__(self, gateway: Gateway, **defaults: Any) -> None:
        super().__init__(**defaults)
        self._gateway = gateway

    def generic(self, method: str, path: str, data: Any = b"", *arguments: Any, **extra: Any) -> Any:  # type: ignore[override]
        if not any(pattern.fullmatch(path.partition("?")[0]) for pattern, *_ in self._gateway._patterns):
            return super().generic(method, path, data, *arguments, **extra)
        body = data if isinstance(data, bytes) else data.encode()
        meta = {"HTTP_HOST": "testserver"} | self.defaults | extra
        headers = [
            (name.removeprefix("HTTP_").replace("_", "-").lower(), str(value))
            for name, value in meta.items()
            if name.startswith("HTTP_")
        ]
        if body:
            headers.append(("content-length", str(len(body))))
        client = f"{meta.get('REMOTE_ADDR', '127.0.0.1')}:4711"
        protocol = Protocol(body)
        on_loop(self._gateway.__rsgi__(Scope(method, path, headers, client=client), protocol))
        response = HttpResponse(protocol.content, status=protocol.status, headers=dict(protocol.headers))
        response.json = lambda: json.loads(protocol.content)  # type: ignore[attr-defined]  # as Django's client does
        return response


@contextmanager
def queries(expected: int) -> Iterator[None]:
    """The number of SQL statements, on whatever thread they run."""
    statements: list[str] = []
    with pytest.MonkeyPatch.context() as patch:
        execute = vars(CursorWrapper)["_execute_with_wrappers"]

        def count(self: CursorWrapper, sql: str, *arguments: Any, **named: Any) -> Any:
            statements.append(sql)
            return execute(self, sql, *arguments, **named)

        patch.setattr(CursorWrapper, "_execute_with_wrappers", count)
        yield
    assert len(statements) == expected, statements
