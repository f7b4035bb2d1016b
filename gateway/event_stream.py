"""Shell: the ASGI application that streams the status of a purchase as server-sent events, in a process of its own.

GET /api/v1/purchases/{id}/events sends the same bodies as the status address, each as soon as it is true, and once a
second the position in the queue if it has changed. An event's id is the version of the outcome, so a client that
reconnects with Last-Event-ID receives only newer ones. The signed position in the address is the permission, because a
browser's EventSource cannot send our headers; with a bearer token the address works without it.
"""

from __future__ import annotations

import asyncio
import json
import os
import random
from collections.abc import Awaitable, Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from typing import Any
from uuid import UUID

import django

from seckill.config.database import WEB_STATEMENT_MS
from seckill.config.public_bind import check_granian

check_granian("the live streams")
os.environ.setdefault("DJANGO_SETTINGS_MODULE", "seckill.config.settings")
os.environ.setdefault("SECKILL_DATABASE_POOL", "4")
os.environ.setdefault("SECKILL_STATEMENT_TIMEOUT_MS", str(WEB_STATEMENT_MS))
django.setup()

from django.db import Error as DatabaseError  # noqa: E402  # Django had to be set up
from django.db import close_old_connections  # noqa: E402

from gateway import purchase_status  # noqa: E402
from gateway.event_stream_request import Scope, StreamRequest, parse_headers, parse_request  # noqa: E402
from gateway.purchase_status import PurchaseStatus  # noqa: E402
from gateway.signed_positions import SignedPosition  # noqa: E402
from gateway.subscriptions import StreamHub, Subscriber  # noqa: E402
from seckill.config.open_files import raise_limit  # noqa: E402
from seckill.web.problems import PROBLEM_CONTENT_TYPE, Problem, problem_body  # noqa: E402

Receive = Callable[[], Awaitable[Mapping[str, Any]]]
Send = Callable[[Mapping[str, Any]], Awaitable[None]]

STREAMS_MAX = 5_000
STATUS_THREADS = 8
POSITION_INTERVAL_S = 1.0
HEARTBEAT_S = 15.0
STREAM_SECONDS_MAX = 30 * 60.0
STREAM_HEADERS = [
    (b"content-type", b"text/event-stream; charset=utf-8"),
    (b"cache-control", b"no-store"),
    (b"x-accel-buffering", b"no"),
    (b"access-control-allow-origin", b"*"),  # the address itself is the permission
]


class EventStreams:
    def __init__(self, streams_max: int = STREAMS_MAX) -> None:
        self.hub = StreamHub(streams_max)
        self._status_threads = ThreadPoolExecutor(STATUS_THREADS, thread_name_prefix="status")
        self._stopping = asyncio.Event()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "lifespan":
            await self._run_lifespan(receive, send)
        elif scope["type"] == "http":
            await self._handle(scope, receive, send)
        elif scope["type"] == "websocket":
            await send({"type": "websocket.close"})

    async def _run_lifespan(self, receive: Receive, send: Send) -> None:
        subscription: asyncio.Task[None] | None = None
        while True:
            message = await receive()
            if message["type"] == "lifespan.startup":
                subscription = asyncio.create_task(self.hub.run())
                await send({"type": "lifespan.startup.complete"})
            else:
                self._stopping.set()
                if subscription is not None:
                    subscription.cancel()
                await send({"type": "lifespan.shutdown.complete"})
                return

    async def _handle(self, scope: Scope, receive: Receive, send: Send) -> None:
        try:
            headers = parse_headers(scope)
            if scope["path"] in ("/livez", "/readyz"):
                await _respond(send, 200, b"text/plain", b"ok\n")
                return
            request = parse_request(scope, headers)
            if not self.hub.has_room(request.request_id, request.address):
                raise Problem(503, "too-many-streams", "Poll the status address instead.", retry_after_s=5)
            # Subscribe before reading the status, so that no change falls between the two.
            with self.hub.subscribed(request.request_id, request.address) as subscriber:
                status = await self._fetch_status(request.request_id, request.signed)
                if status is None or status.user_id != request.user_id:
                    raise Problem(404, "no-such-purchase", "You have no such request.")
                if _has_seen_the_end(status, request.last_event_id):
                    await _respond(send, 204, b"text/plain", b"")  # makes an EventSource stop reconnecting
                    return
                await self._stream(subscriber, status, request, receive, send)
        except Problem as problem:
            headers_out = [(b"access-control-allow-origin", b"*")]
            if problem.retry_after_s is not None:
                headers_out.append((b"retry-after", str(max(1, round(problem.retry_after_s))).encode()))
            body = json.dumps(problem_body(problem)).encode()
            await _respond(send, problem.status, PROBLEM_CONTENT_TYPE.encode(), body, headers_out)

    async def _stream(
        self, subscriber: Subscriber, status: PurchaseStatus, request: StreamRequest, receive: Receive, send: Send
    ) -> None:
        """Until the outcome is final, the client disconnects, this process stops, or the time limit is reached."""
        await send({"type": "http.response.start", "status": 200, "headers": STREAM_HEADERS})
        await _send_text(send, f"retry: {random.randrange(1000, 3000)}\n\n")
        tasks = [
            asyncio.create_task(self._send_events(subscriber, status, request, send)),
            asyncio.create_task(_wait_for_disconnect(receive)),
            asyncio.create_task(self._stopping.wait()),
        ]
        try:
            await asyncio.wait(tasks, timeout=STREAM_SECONDS_MAX, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)
        await send({"type": "http.response.body", "body": b""})

    async def _send_events(
        self, subscriber: Subscriber, status: PurchaseStatus, request: StreamRequest, send: Send
    ) -> None:
        sent, quiet_s, last_version = "", 0.0, request.last_event_id
        while True:
            event = _encode_event(status, last_version)
            if event and event != sent:
                sent, quiet_s = event, 0.0
                await _send_text(send, event)
            if status.outcome is not None:
                last_version = max(last_version, status.outcome.version)
                if status.outcome.is_final:
                    return
            wait_s = HEARTBEAT_S if status.outcome is not None else POSITION_INTERVAL_S
            outcome = await subscriber.next_outcome(wait_s)
            if outcome is not None:
                status = status._replace(outcome=outcome)
                continue
            quiet_s += wait_s
            if quiet_s >= HEARTBEAT_S:
                quiet_s = 0.0
                await _send_text(send, ": heartbeat\n\n")
            if status.outcome is not None or not purchase_status.is_certainly_queued(status):
                fresh = await self._fetch_status(subscriber.request_id, request.signed)
                if fresh is not None and (fresh.outcome is not None or status.outcome is None):
                    status = fresh  # an outcome that was shown is never taken back

    async def _fetch_status(self, request_id: UUID, signed: SignedPosition | None) -> PurchaseStatus | None:
        """On a thread, because it may have to query the database."""
        loop = asyncio.get_running_loop()
        try:
            return await loop.run_in_executor(self._status_threads, _fetch_status, request_id, signed)
        except DatabaseError as fault:
            raise Problem(503, "database-unavailable", "Try again in a moment.", retry_after_s=2) from fault


def _fetch_status(request_id: UUID, signed: SignedPosition | None) -> PurchaseStatus | None:
    try:
        return purchase_status.fetch_status(request_id, signed)
    finally:
        close_old_connections()


def _has_seen_the_end(status: PurchaseStatus, last_version: int) -> bool:
    return status.outcome is not None and status.outcome.is_final and status.outcome.version <= last_version


def _encode_event(status: PurchaseStatus, last_version: int) -> str:
    """Empty if the client already has this version."""
    data = json.dumps(status.body(status.estimate), separators=(",", ":"))
    if status.outcome is None:
        return f"event: purchase\ndata: {data}\n\n"
    version = status.outcome.version
    return f"id: {version}\nevent: purchase\ndata: {data}\n\n" if version > last_version else ""


async def _wait_for_disconnect(receive: Receive) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass


async def _send_text(send: Send, text: str) -> None:
    await send({"type": "http.response.body", "body": text.encode(), "more_body": True})


async def _respond(
    send: Send, status: int, content_type: bytes, body: bytes, headers: list[tuple[bytes, bytes]] | None = None
) -> None:
    start = [(b"content-type", content_type), (b"content-length", str(len(body)).encode()), *(headers or [])]
    await send({"type": "http.response.start", "status": status, "headers": start})
    await send({"type": "http.response.body", "body": body})


raise_limit()
application = EventStreams()
