"""Shell: the gateway with spans: one for each request of a client, and one for each record that is sent.

`gateway/app.py` uses these classes only if spans are exported, so the purchase path costs nothing otherwise.
"""

from __future__ import annotations

import asyncio
from typing import Any

from django.core.signals import request_started
from django.urls import Resolver404, resolve

from gateway.events import PurchaseRequested
from gateway.http import Request, Response, problem_response
from gateway.purchase_queue import PurchaseQueue, QueuePermit
from gateway.routes import Gateway
from seckill.messaging.record_position import RecordPosition
from seckill.monitoring import spans, traces
from seckill.web.problems import Problem

POLLED_BY_MACHINES = ("/livez", "/readyz", "/metrics")
METHODS = ("GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS")


class TracedQueue(PurchaseQueue):
    async def enqueue(
        self, requested: PurchaseRequested, trace: str, permit: QueuePermit, *, is_new: bool
    ) -> RecordPosition:
        with spans.sending(permit.topic, requested.request_id) as span:
            position = await super().enqueue(requested, span.headers.get(traces.HEADER, trace), permit, is_new=is_new)
            span.record_position(position.partition, position.offset)
            return position


class TracedGateway(Gateway):
    queue_type = TracedQueue

    def __rsgi_init__(self, loop: asyncio.AbstractEventLoop) -> None:
        request_started.connect(_enter_span, dispatch_uid="gateway.traced")
        super().__rsgi_init__(loop)

    def __rsgi_del__(self, loop: asyncio.AbstractEventLoop) -> None:
        super().__rsgi_del__(loop)
        spans.stop()

    async def _respond(self, request: Request) -> Response | None:
        if request.path in POLLED_BY_MACHINES:
            return await super()._respond(request)
        method = request.method if request.method in METHODS else "_OTHER"
        traceparent = request.headers.get(traces.HEADER)
        with spans.serving(method, self._route(request.path), request.scope.scheme, traceparent) as span:
            request.headers.update(span.headers)  # for Django's threads
            try:
                response = await super()._respond(request)
            except Problem as problem:
                response = problem_response(problem)  # a refusal does not mark the span as failed
            span.record_status(200 if response is None else response.status)
            return response

    def _route(self, path: str) -> str:
        """The pattern of an address; empty if there is none, because a client may ask for anything."""
        for address, (pattern, _, _) in zip(self.routes, self._patterns, strict=True):
            if pattern.fullmatch(path):
                return address
        try:
            return f"/{resolve(path).route}"
        except Resolver404:
            return ""


def _enter_span(sender: object, environ: dict[str, Any], **_: object) -> None:
    """On the thread that answers a request, before Django begins."""
    traces.current.set(environ.get("HTTP_TRACEPARENT"))
