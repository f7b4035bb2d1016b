"""Shell: spans of this process, sent over OTLP by OpenTelemetry's SDK. spans.py imports this module only if an endpoint
is set.

The SDK reads its own variables. A thread sends the spans; a queue of `OTEL_BSP_MAX_QUEUE_SIZE` spans holds them
meanwhile, and drops the oldest if the collector does not keep up or does not answer.
"""

from __future__ import annotations

import logging
import os
import socket
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from threading import Thread

from opentelemetry import trace
from opentelemetry.context import Context
from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
from opentelemetry.sdk.resources import OTELResourceDetector, Resource
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor, SpanExporter, SpanExportResult
from opentelemetry.sdk.trace.sampling import Decision, Sampler, SamplingResult
from opentelemetry.trace import Link, SpanKind, Status, StatusCode
from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator
from opentelemetry.util import types

from seckill.monitoring import traces
from seckill.monitoring.spans import Attributes, Span

log = logging.getLogger(__name__)

STOP_SECONDS_MAX = 3.0
"""How long a stopping process waits for the collector."""
DEFAULTS = {"OTEL_BSP_MAX_QUEUE_SIZE": "1024", "OTEL_EXPORTER_OTLP_TIMEOUT": "5"}
"""A span of a batch may have 128 links of half a kilobyte, so a full queue takes 70 MB at most."""

_propagator = TraceContextTextMapPropagator()


class ExportedSpan(Span):
    def __init__(self, span: trace.Span, kind: SpanKind) -> None:
        self._span = span
        self._failed_from = 500 if kind is SpanKind.SERVER else 400  # a server has done its part when it refuses
        carrier: dict[str, str] = {}
        _propagator.inject(carrier, trace.set_span_in_context(span, Context()))
        self.headers = {traces.HEADER: carrier[traces.HEADER]}

    @property
    def traceparent(self) -> str:
        return self.headers[traces.HEADER]

    def record_status(self, status: int) -> None:
        self._span.set_attribute("http.response.status_code", status)
        if status >= self._failed_from:
            self._span.set_status(Status(StatusCode.ERROR))

    def record_position(self, partition: int, offset: int) -> None:
        self._span.set_attribute("messaging.destination.partition.id", str(partition))
        self._span.set_attribute("messaging.kafka.offset", offset)

    def record_fault(self, fault: Exception) -> None:
        """Its type only: the text may name a buyer."""
        self._span.set_attribute("error.type", type(fault).__qualname__)
        self._span.set_status(Status(StatusCode.ERROR))

    def end(self) -> None:
        self._span.end()


class SpanExport:
    """Raises `ValueError` if one of OpenTelemetry's variables has an impossible value."""

    def __init__(self, service: str) -> None:
        for name in [name for name, value in os.environ.items() if name.startswith("OTEL_") and not value]:
            del os.environ[name]  # the specification says that empty means unset, but the SDK parses some of them
        for name, value in DEFAULTS.items():
            os.environ.setdefault(name, value)
        process = {
            "service.name": service,
            "service.namespace": "seckill",
            "service.instance.id": f"{socket.gethostname()}.{os.environ.get('SECKILL_STACK_NAME', service)}",
        }
        resource = Resource.create(process).merge(OTELResourceDetector().detect())
        self._provider = TracerProvider(resource=resource, shutdown_on_exit=False)
        self._provider.sampler = _BatchSampler(self._provider.sampler)
        self._provider.add_span_processor(BatchSpanProcessor(_LoggedExporter(OTLPSpanExporter())))
        self._tracer = self._provider.get_tracer("seckill")

    def start(
        self, kind: str, name: str, attributes: Attributes, parent: str | None, links: Sequence[str] = (),
        began_ns: int | None = None,
    ) -> ExportedSpan:  # fmt: skip
        """`links` to contexts that are not sampled are left out, because nobody exports their spans."""
        sampled = [trace.get_current_span(_context(each)) for each in links if traces.is_sampled(each)]
        span = self._tracer.start_span(
            name, _context(parent), SpanKind[kind], attributes, [Link(each.get_span_context()) for each in sampled],
            began_ns,
        )  # fmt: skip
        return ExportedSpan(span, SpanKind[kind])

    @contextmanager
    def span(
        self, kind: str, name: str, attributes: Attributes, parent: str | None, links: Sequence[str] = ()
    ) -> Iterator[Span]:
        """The current span for the length of the block. An exception marks it as failed."""
        span = self.start(kind, name, attributes, parent, links)
        outer = traces.current.set(span.traceparent)
        try:
            yield span
        except Exception as fault:
            span.record_fault(fault)
            raise
        finally:
            traces.current.reset(outer)
            span.end()

    def stop(self) -> None:
        stopping = Thread(target=self._provider.shutdown, name="spans", daemon=True)
        stopping.start()
        stopping.join(STOP_SECONDS_MAX)


class _BatchSampler(Sampler):
    """A batch belongs to no trace, so what was decided for its records decides: only sampled records are linked. The
    sampler of `OTEL_TRACES_SAMPLER` decides all other spans."""

    def __init__(self, configured: Sampler) -> None:
        self._configured = configured

    def should_sample(
        self, parent_context: Context | None, trace_id: int, name: str, kind: SpanKind | None = None,
        attributes: types.Attributes = None, links: Sequence[Link] | None = None,
        trace_state: trace.TraceState | None = None,
    ) -> SamplingResult:  # fmt: skip
        has_parent = trace.get_current_span(parent_context).get_span_context().is_valid
        if links and not has_parent:
            return SamplingResult(Decision.RECORD_AND_SAMPLE, attributes)
        return self._configured.should_sample(parent_context, trace_id, name, kind, attributes, links, trace_state)

    def get_description(self) -> str:
        return f"BatchSampler({self._configured.get_description()})"


class _LoggedExporter(SpanExporter):
    """Logs one line when the collector stops accepting spans, and one when it accepts them again. The library logs
    each failure."""

    def __init__(self, exporter: OTLPSpanExporter) -> None:
        self._exporter = exporter
        self._is_accepted = True
        for name in ("opentelemetry.exporter", "opentelemetry.sdk._shared_internal", "urllib3"):
            logging.getLogger(name).setLevel(logging.CRITICAL)

    def export(self, spans: Sequence[ReadableSpan]) -> SpanExportResult:
        result = self._exporter.export(spans)
        is_accepted = result is SpanExportResult.SUCCESS
        if is_accepted != self._is_accepted:
            self._is_accepted = is_accepted
            log.warning("spans are exported again" if is_accepted else "the collector does not accept spans")
        return result

    def shutdown(self) -> None:
        self._exporter.shutdown()  # type: ignore[no-untyped-call]

    def force_flush(self, timeout_millis: int = 30_000) -> bool:
        return self._exporter.force_flush(timeout_millis)


def _context(traceparent: str | None) -> Context:
    """Empty for None and for a malformed text, so a span in it begins a trace."""
    return _propagator.extract({} if traceparent is None else {traces.HEADER: traceparent}, Context())
