"""Shell: `GET /metrics` for Prometheus and `GET /livez` for health checks, with the little HTTP they need."""

from __future__ import annotations

import asyncio

from mqcore.host import BoundAddress, Clock, Server
from mqcore.metrics import Metrics

HEAD_BYTES_MAX = 8192
REQUEST_SECONDS_MAX = 5.0
REQUESTS_MAX = 32


async def serve(metrics: Metrics, bound: BoundAddress, clock: Clock) -> Server:
    open_requests: dict[asyncio.WriteTransport, None] = {}  # oldest first

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        if len(open_requests) >= REQUESTS_MAX:  # silent connections must not keep out a health check
            oldest = next(iter(open_requests))
            del open_requests[oldest]
            oldest.abort()
        open_requests[writer.transport] = None
        try:
            async with clock.timeout(REQUEST_SECONDS_MAX):
                head = await reader.readuntil(b"\r\n\r\n")
                writer.write(_response(head, metrics))
                await writer.drain()
        except (TimeoutError, asyncio.IncompleteReadError, asyncio.LimitOverrunError, ConnectionError):
            pass
        finally:
            open_requests.pop(writer.transport, None)
            writer.close()

    return await bound.serve_streams(answer, HEAD_BYTES_MAX)


def _response(head: bytes, metrics: Metrics) -> bytes:
    method, _, rest = head.partition(b" ")
    path = rest.split(b" ", 1)[0].split(b"?", 1)[0]
    if method not in (b"GET", b"HEAD"):
        status, body = "405 Method Not Allowed", "use GET\n"
    elif path == b"/metrics":
        status, body = "200 OK", metrics.page()
    elif path == b"/livez":
        status, body = "200 OK", "ok\n"
    else:
        status, body = "404 Not Found", "try /metrics\n"
    content = body.encode()
    kind = "text/plain; version=0.0.4; charset=utf-8"
    lines = f"HTTP/1.1 {status}\r\nContent-Type: {kind}\r\nContent-Length: {len(content)}\r\nConnection: close\r\n\r\n"
    return lines.encode() + (b"" if method == b"HEAD" else content)
