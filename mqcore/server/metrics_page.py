"""Shell: `GET /metrics` for Prometheus and `GET /livez`, over as much HTTP as they need."""

from __future__ import annotations

import asyncio
import socket

from mqcore.metrics import Metrics

MOST_HEAD_BYTES = 8192
PATIENCE_S = 5.0
MOST_REQUESTS = 32


async def serve(metrics: Metrics, bound: socket.socket) -> asyncio.AbstractServer:
    waiting: dict[asyncio.WriteTransport, None] = {}  # connections, oldest first

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        if len(waiting) >= MOST_REQUESTS:  # connections that ask for nothing must not keep out a check of health
            oldest = next(iter(waiting))
            del waiting[oldest]
            oldest.abort()
        waiting[writer.transport] = None
        try:
            async with asyncio.timeout(PATIENCE_S):
                head = await reader.readuntil(b"\r\n\r\n")
                writer.write(_respond(head, metrics))
                await writer.drain()
        except (TimeoutError, asyncio.IncompleteReadError, asyncio.LimitOverrunError, ConnectionError):
            pass
        finally:
            waiting.pop(writer.transport, None)
            writer.close()

    return await asyncio.start_server(answer, sock=bound, limit=MOST_HEAD_BYTES)


def _respond(head: bytes, metrics: Metrics) -> bytes:
    method, _, rest = head.partition(b" ")
    path = rest.split(b" ", 1)[0].split(b"?", 1)[0]
    if method not in (b"GET", b"HEAD"):
        status, body = "405 Method Not Allowed", "only GET\n"
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
