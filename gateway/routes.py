"""Shell: the gateway's application for Granian's interface RSGI: one event loop, and Django on a few threads.

The loop serves the addresses that buyers call most (see `ROUTES`); these handlers must not block. Django serves the
rest. Any number of processes may run side by side, because everything they share is in Redis, Postgres and the broker.
"""

from __future__ import annotations

import asyncio
import logging
import re
from collections.abc import Awaitable, Callable
from typing import Any
from uuid import UUID

import orjson
from django.db import Error as DatabaseError
from granian.rsgi import ProtocolClosed  # type: ignore[attr-defined]  # named there, though not exported

from gateway import accepted_response, from_threads, metrics, purchase_status, redis_clock, sales, signed_positions
from gateway.django_threads import DjangoThreads
from gateway.event_stream import stream_purchase
from gateway.http import (
    Headers,
    Request,
    Response,
    is_secure,
    json_response,
    needs_django,
    problem_response,
    read_request,
    security_headers,
)
from gateway.producer import QueueProducer
from gateway.purchase import PurchaseCall, Purchases
from gateway.purchase_queue import PurchaseQueue
from gateway.sale_json import sale_etag, sale_json
from gateway.stop_signals import release_signals_after
from gateway.subscriptions import StreamHub
from seckill.monitoring.signs_of_life import start_signs
from seckill.web import tokens
from seckill.web.problems import DJANGO_ERRORS, Problem

log = logging.getLogger(__name__)

STREAMS_SHARE = 0.75
"""The share of a process's connections that event streams may use, so that purchases always find one."""
NO_STORE = ("cache-control", "no-store")
PARAMETERS = {
    "{sale_id}": "([0-9]{1,18})",  # 18 digits fit into any 64-bit column
    "{request_id}": "([0-9a-f]{8}-(?:[0-9a-f]{4}-){3}[0-9a-f]{12})",
}

Handler = Callable[..., Awaitable[Response | None]]
"""Called with the request and the parameters of the address."""


class Gateway:
    queue_type = PurchaseQueue

    def __init__(self, connections_max: int) -> None:
        self.purchases = Purchases(self.queue_type(QueueProducer()))
        self._django = DjangoThreads()
        self._streams = StreamHub(int(connections_max * STREAMS_SHARE))
        self._tasks: list[asyncio.Task[None]] = []
        security_headers(is_secure=False)  # computed once; a mistake in the settings stops the start
        self.routes: dict[str, tuple[str, Handler]] = {
            "/api/v1/sales/{sale_id}/purchases": ("POST", self._buy),
            "/api/v1/purchases/{request_id}": ("GET", self._purchase),
            "/api/v1/purchases/{request_id}/events": ("GET", self._events),
            "/api/v1/sales": ("GET", self._sales),
            "/api/v1/sales/{sale_id}": ("GET", self._sale),
            "/livez": ("GET", self._livez),
        }
        self._patterns = [(_compile(address), *route) for address, route in self.routes.items()]

    # ── start and stop ───────────────────────────────────────────────────────────────────────────

    def __rsgi_init__(self, loop: asyncio.AbstractEventLoop) -> None:
        """Called by Granian before the first request."""
        self._loop = loop
        from_threads.connect(loop, self.purchases)
        release_signals_after(self._streams.close, loop)
        self._signs = start_signs()
        for work in (
            self.purchases.queue.producer.run(),
            self._streams.run(),
            metrics.publish(self.purchases, self._streams),
        ):
            self._tasks.append(loop.create_task(work))

    def __rsgi_del__(self, loop: asyncio.AbstractEventLoop) -> None:
        """Called by Granian after the last response."""
        for task in self._tasks:
            task.cancel()
        loop.run_until_complete(asyncio.gather(*self._tasks, return_exceptions=True))
        loop.run_until_complete(self.purchases.queue.producer.close())
        self._django.close()
        if self._signs is not None:
            self._signs.say_goodbye()

    # ── a request ────────────────────────────────────────────────────────────────────────────────

    async def __rsgi__(self, scope: Any, protocol: Any) -> None:
        if scope.proto != "http":
            protocol.close(None)  # a WebSocket, refused during its handshake
            return
        headers: Headers = []
        try:
            request = read_request(scope, protocol)
            headers = request.response_headers
            response = await self._respond(request)
        except Problem as problem:
            response = problem_response(problem)
        except ProtocolClosed:
            return  # the client disconnected before it had sent everything
        except DatabaseError as fault:
            log.warning("database unavailable", extra={"path": scope.path, "reason": str(fault)})
            response = problem_response(Problem(503, "database-unavailable", "Try again in a moment.", retry_after_s=2))
        except Exception:
            log.exception("a request failed", extra={"path": scope.path})
            response = problem_response(Problem(500, *DJANGO_ERRORS[500]))
        if response is not None:
            protocol.response_bytes(response.status, response.headers + headers, response.body)

    async def _respond(self, request: Request) -> Response | None:
        for pattern, method, handler in self._patterns:
            found = pattern.fullmatch(request.path)
            if found is None:
                continue
            if needs_django(request):
                break
            request.response_headers += security_headers(is_secure(request))
            if request.method == method:
                return await handler(request, *found.groups())
            refused = problem_response(Problem(405, *DJANGO_ERRORS[405]))
            return refused._replace(headers=[*refused.headers, ("allow", method)])
        return await self._django.respond(request, self._loop)

    # ── handlers ─────────────────────────────────────────────────────────────────────────────────

    async def _buy(self, request: Request, sale_id: str) -> Response:
        """202 once the broker has the request. The same key gets the same answer."""
        header = request.headers.get
        call = PurchaseCall(
            int(sale_id), "", header("authorization", ""), header("idempotency-key", ""),
            header("purchase-ticket", ""), request.peer, header("x-forwarded-for", ""), header("traceparent"),
            await request.body(),
        )  # fmt: skip
        accepted = await self.purchases.buy(call)
        return json_response(202, accepted.content, _poll_headers(accepted.poll_after_ms))

    async def _purchase(self, request: Request, request_id: str) -> Response:
        """The status of one's own request. Another user's request is answered like an unknown one."""
        user_id = tokens.user_of_bearer(request.headers.get("authorization", ""))
        uuid = UUID(request_id)
        signed = signed_positions.verify_position(uuid, request.query("place"))
        status = await purchase_status.fetch_status(uuid, signed)
        if status is None or status.user_id != user_id:
            raise Problem(404, "no-such-purchase", "You have no such request.")
        estimate = status.estimate
        is_settled = status.outcome is not None and status.outcome.is_final
        after_ms = accepted_response.poll_after_ms(estimate, is_settled=is_settled)
        return json_response(200, orjson.dumps(status.body(estimate)), _poll_headers(after_ms))

    async def _events(self, request: Request, request_id: str) -> Response | None:
        return await stream_purchase(self._streams, request, UUID(request_id))

    async def _sales(self, request: Request) -> Response:
        views = await sales.list_sales_on_loop()
        tag = "-".join(map(sale_etag, views)) or "none"
        return _with_etag(request, tag, {"sales": [sale_json(view) for view in views]})

    async def _sale(self, request: Request, sale_id: str) -> Response:
        view = await sales.find_sale_on_loop(int(sale_id))
        return _with_etag(request, sale_etag(view), sale_json(view))

    async def _livez(self, request: Request) -> Response:
        """The process runs, whatever else is down and however busy Django's threads are."""
        return Response(200, [("content-type", "text/plain")], b"ok\n")


def _compile(address: str) -> re.Pattern[str]:
    for name, pattern in PARAMETERS.items():
        address = address.replace(name, pattern)
    return re.compile(address)


def _poll_headers(poll_after_ms: int) -> Headers:
    return [NO_STORE, ("x-poll-after-ms", str(poll_after_ms))]


def _with_etag(request: Request, tag: str, content: dict[str, Any]) -> Response:
    """The ETag is weak because the time in the body moves on while the sales stay the same."""
    etag, now_ms = f'W/"{tag}"', redis_clock.now_ms()
    headers = [("etag", etag), ("cache-control", "no-cache"), ("x-now-ms", str(now_ms))]
    known = {each.strip() for each in request.headers.get("if-none-match", "").split(",")}
    if etag in known:
        return Response(304, headers, b"")
    return json_response(200, orjson.dumps(content | {"now_ms": now_ms}), headers)
