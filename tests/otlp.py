"""A small OTLP receiver: it decodes what OpenTelemetry's exporter sends over HTTP, and finds parents and links."""

from __future__ import annotations

import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, NamedTuple

from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import (
    ExportTraceServiceRequest,
    ExportTraceServiceResponse,
)
from opentelemetry.proto.trace.v1.trace_pb2 import Span as SpanMessage

SpanId = tuple[str, str]
"""Trace id and span id, in hex."""


class Span(NamedTuple):
    service: str
    name: str
    kind: str
    id: SpanId
    parent: SpanId | None
    links: Sequence[SpanId]
    attributes: dict[str, Any]
    began_ns: int
    ended_ns: int
    is_failed: bool

    @property
    def trace(self) -> str:
        return self.id[0]


class OtlpReceiver:
    def __init__(self) -> None:
        self._spans: list[Span] = []
        self.headers: list[dict[str, str]] = []
        self.stopped = threading.Event()
        receiver = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                assert self.path == "/v1/traces" and self.headers["Content-Type"] == "application/x-protobuf"
                request = ExportTraceServiceRequest.FromString(self.rfile.read(int(self.headers["Content-Length"])))
                receiver.headers.append({name.lower(): value for name, value in self.headers.items()})
                receiver._spans += decode(request)
                content = ExportTraceServiceResponse().SerializeToString()
                self.send_response(200)
                self.send_header("Content-Type", "application/x-protobuf")
                self.send_header("Content-Length", str(len(content)))
                self.end_headers()
                self.wfile.write(content)

            def log_message(self, format: str, *args: Any) -> None:
                pass

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.address = f"http://127.0.0.1:{self.server.server_port}"

    def spans(self) -> list[Span]:
        return list(self._spans)

    def find(self, name: str, **attributes: object) -> list[Span]:
        """Spans of this name; `a__b="x"` selects by the attribute `a.b`."""
        wanted = {key.replace("__", "."): value for key, value in attributes.items()}
        return [each for each in self.spans() if each.name == name and wanted.items() <= each.attributes.items()]

    def path_to_root(self, span: Span) -> list[str]:
        """The names from the root to this span, or from the first one that arrived."""
        by_id: dict[SpanId | None, Span] = {each.id: each for each in self.spans()}
        names = [span.name]
        while span.parent in by_id:
            span = by_id[span.parent]
            names.insert(0, span.name)
        return names


@contextmanager
def receiving() -> Iterator[OtlpReceiver]:
    receiver = OtlpReceiver()
    thread = threading.Thread(target=receiver.server.serve_forever, args=(0.02,))
    thread.start()
    try:
        yield receiver
    finally:
        receiver.server.shutdown()
        thread.join()
        receiver.server.server_close()


def decode(request: ExportTraceServiceRequest) -> Iterator[Span]:
    for resource in request.resource_spans:
        service = _attributes(resource.resource.attributes)["service.name"]
        for scope in resource.scope_spans:
            for span in scope.spans:
                trace = span.trace_id.hex()
                yield Span(
                    service, span.name, SpanMessage.SpanKind.Name(span.kind).removeprefix("SPAN_KIND_"),
                    (trace, span.span_id.hex()),
                    (trace, span.parent_span_id.hex()) if span.parent_span_id else None,
                    [(link.trace_id.hex(), link.span_id.hex()) for link in span.links],
                    _attributes(span.attributes), span.start_time_unix_nano, span.end_time_unix_nano,
                    span.status.code == span.status.STATUS_CODE_ERROR,
                )  # fmt: skip


def _attributes(pairs: Any) -> dict[str, Any]:
    return {pair.key: getattr(pair.value, pair.value.WhichOneof("value")) for pair in pairs}


def lines_of_tree(spans: Sequence[Span]) -> list[str]:
    """One line for each span, indented below its parent; a root is preceded by its trace."""
    lines: list[str] = []

    def add(span: Span, depth: int) -> None:
        milliseconds = (span.ended_ns - span.began_ns) / 1e6
        links = f"  ⇢ {len(span.links)} linked" if span.links else ""
        lines.append(f"{'  ' * depth}{span.name}  [{span.service}, {span.kind.lower()}, {milliseconds:.1f} ms]{links}")
        for child in sorted((each for each in spans if each.parent == span.id), key=lambda each: each.began_ns):
            add(child, depth + 1)

    ids = {span.id for span in spans}
    for span in sorted(spans, key=lambda each: each.began_ns):
        if span.parent not in ids:
            lines.append(f"trace {span.trace}")
            add(span, 1)
    return lines


if __name__ == "__main__":  # print what a running stack exports, until interrupted
    with receiving() as running:
        print(f"OTEL_EXPORTER_OTLP_ENDPOINT={running.address}", flush=True)
        try:
            threading.Event().wait()
        except KeyboardInterrupt:
            print("\n".join(lines_of_tree(running.spans())))
