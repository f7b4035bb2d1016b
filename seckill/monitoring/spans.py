"""Spans: what this process does for a purchase, for a viewer of traces. Names and attributes are OpenTelemetry's.

Each function does nothing until `start` has found an endpoint in OpenTelemetry's variables. Only then is the SDK
imported (span_export.py). No attribute names a buyer: record keys, tokens, addresses and bodies stay out.

An event has a span of its own, `create TOPIC`, whose context travels with the record. A consumer and the relay work on
batches, so their spans begin traces of their own and link to each record of the batch.
"""

from __future__ import annotations

import json
import logging
import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from types import MappingProxyType
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit
from uuid import UUID

from django.db import transaction

from seckill.monitoring import traces

if TYPE_CHECKING:
    from seckill.monitoring.span_export import SpanExport

log = logging.getLogger(__name__)

ENDPOINTS = ("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", "OTEL_EXPORTER_OTLP_ENDPOINT")
PROTOCOLS = ("OTEL_EXPORTER_OTLP_TRACES_PROTOCOL", "OTEL_EXPORTER_OTLP_PROTOCOL")
PROTOCOL = "http/protobuf"

Attributes = dict[str, str | int]


class Span:
    """What the code inside a span may use. This one is not exported."""

    headers: Mapping[str, str] = MappingProxyType({})
    """What an outgoing call carries, so that its receiver continues the trace."""

    def record_status(self, status: int) -> None: ...

    def record_position(self, partition: int, offset: int) -> None: ...


_NOT_EXPORTED: AbstractContextManager[Span] = nullcontext(Span())
_export: SpanExport | None = None


# ── start and stop ───────────────────────────────────────────────────────────────────────────────


def is_wanted(variables: Mapping[str, str]) -> bool:
    """Whether the variables name an endpoint and nothing switches the export off. An empty variable counts as unset."""
    is_off = variables.get("OTEL_SDK_DISABLED", "").lower() == "true"
    return any(map(variables.get, ENDPOINTS)) and not is_off and variables.get("OTEL_TRACES_EXPORTER") != "none"


def start(service: str) -> bool:
    """Export this process's spans if an endpoint is set. A bad setting is logged, because traces never stop a sale."""
    global _export
    if not is_wanted(os.environ):
        return False
    protocol = next(filter(None, map(os.environ.get, PROTOCOLS)), PROTOCOL)
    try:
        if protocol != PROTOCOL:
            raise ValueError(f"OTEL_EXPORTER_OTLP_PROTOCOL must be {PROTOCOL}, got {protocol!r}")
        from seckill.monitoring.span_export import SpanExport

        _export = SpanExport(service)
    except Exception as fault:
        log.error("no spans are exported", extra={"reason": f"{type(fault).__name__}: {fault}"})
    return _export is not None


def stop() -> None:
    """Send what waits, within a deadline."""
    global _export
    stopped, _export = _export, None
    if stopped is not None:
        stopped.stop()


# ── messages ─────────────────────────────────────────────────────────────────────────────────────


def create_event(topic: str, event_id: UUID, cause: UUID | None) -> str:
    """The trace context that an event carries. Its span ends when the transaction commits."""
    if _export is None:
        return traces.child(event_id, cause)
    came_with, here = traces.context_of(cause), traces.current.get()
    attributes = _of_kafka(topic, "create") | {"messaging.message.id": str(event_id)}
    batch = [here] if came_with is not None and here is not None else []
    span = _export.start("PRODUCER", f"create {topic}", attributes, came_with or here, batch)
    transaction.on_commit(span.end, robust=True)
    return span.traceparent


def sending(topic: str, message_id: UUID) -> AbstractContextManager[Span]:
    """One message that is sent as soon as it is created: its span is both."""
    if _export is None:
        return _NOT_EXPORTED
    attributes = _of_kafka(topic, "send") | {"messaging.message.id": str(message_id)}
    return _export.span("PRODUCER", f"send {topic}", attributes, traces.current.get())


def record_sent(rows: Iterable[tuple[str, str]], began_ns: int) -> None:
    """The relay has sent a batch. Each row is (topic, its headers as JSON)."""
    if _export is None:
        return
    links: dict[str, list[str]] = {}
    for topic, headers in rows:
        links.setdefault(topic, []).append(json.loads(headers).get(traces.HEADER, ""))
    for topic, contexts in links.items():
        attributes = _of_kafka(topic, "send") | {"messaging.batch.message_count": len(contexts)}
        if any(map(traces.is_sampled, contexts)):
            _export.start("CLIENT", f"send {topic}", attributes, None, contexts, began_ns).end()


def processing(group: str, topic: str, partition: int, records: Sequence[Any]) -> AbstractContextManager[Span]:
    """One batch of kafka-python's records, from its first query to its commit."""
    if _export is None:
        return _NOT_EXPORTED
    contexts = list(_contexts(records))
    if not any(map(traces.is_sampled, contexts)):
        return _NOT_EXPORTED
    attributes = _of_kafka(topic, "process") | {
        "messaging.consumer.group.name": group,
        "messaging.destination.partition.id": str(partition),
        "messaging.batch.message_count": len(records),
        "messaging.kafka.offset": records[0].offset,
    }
    return _export.span("CONSUMER", f"process {topic}", attributes, None, contexts)


def processing_task(queue: str, message_id: str, traceparent: str) -> AbstractContextManager[Span]:
    """A task that Celery runs for one message."""
    if _export is None or not traces.is_sampled(traceparent):
        return _NOT_EXPORTED
    attributes = _of_messaging("celery", queue, "process") | {"messaging.message.id": message_id}
    return _export.span("CONSUMER", f"process {queue}", attributes, traceparent)


# ── HTTP ─────────────────────────────────────────────────────────────────────────────────────────


def serving(method: str, route: str, scheme: str, traceparent: str | None) -> AbstractContextManager[Span]:
    """A request that a client sent. `route` is the pattern of its address, because the address itself has ids."""
    if _export is None:
        return _NOT_EXPORTED
    attributes: Attributes = {"http.request.method": method, "url.scheme": scheme}
    if route:
        attributes["http.route"] = route
    return _export.span("SERVER", f"{method} {route}".strip(), attributes, traceparent)


def calling(method: str, url: str) -> AbstractContextManager[Span]:
    """A request that this process sends. Work that begins no trace, such as polling, has no span."""
    here = traces.current.get()
    if _export is None or here is None:
        return _NOT_EXPORTED
    parts = urlsplit(url)
    attributes: Attributes = {
        "http.request.method": method,
        "server.address": parts.hostname or "",
        "server.port": parts.port or (443 if parts.scheme == "https" else 80),
        "url.full": f"{parts.scheme}://{parts.netloc.rpartition('@')[2]}{parts.path}",
    }
    return _export.span("CLIENT", method, attributes, here)


def _of_messaging(system: str, destination: str, operation: str) -> Attributes:
    return {
        "messaging.system": system,
        "messaging.destination.name": destination,
        "messaging.operation.name": operation,
        "messaging.operation.type": operation,
    }


def _of_kafka(topic: str, operation: str) -> Attributes:
    return _of_messaging("kafka", topic, operation)


def _contexts(records: Iterable[Any]) -> Iterator[str]:
    for record in records:
        for name, value in record.headers:
            if name == traces.HEADER:
                yield (value or b"").decode(errors="replace")
