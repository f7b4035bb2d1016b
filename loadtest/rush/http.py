"""A small HTTP/1.1 client with a connection pool. A fault becomes a response with status 0, not an exception."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Mapping
from typing import Any, NamedTuple
from urllib.parse import urlsplit

from loadtest.buyers import Response

TIMEOUT_S = 15.0


class _Connection(NamedTuple):
    reader: asyncio.StreamReader
    writer: asyncio.StreamWriter


class Client:
    """It opens at most this many connections; a call waits for a free one."""

    def __init__(self, url: str, connections: int) -> None:
        parts = urlsplit(url)
        if parts.scheme != "http" or parts.hostname is None:
            raise ValueError(f"the address must begin with http://, got {url!r}")
        self._host, self._port = parts.hostname, parts.port or 80
        self._base = parts.path.rstrip("/")
        self._idle: list[_Connection] = []
        self._room = asyncio.Semaphore(connections)

    async def call(
        self, method: str, path: str, body: Mapping[str, Any] | None = None, headers: Mapping[str, str] | None = None
    ) -> Response:
        content = b"" if body is None else json.dumps(body).encode()
        lines = [f"{method} {self._base}{path} HTTP/1.1", f"Host: {self._host}:{self._port}"]
        lines += [f"{name}: {value}" for name, value in (headers or {}).items()]
        lines += ["Content-Type: application/json", f"Content-Length: {len(content)}", "", ""]
        async with self._room:
            try:
                async with asyncio.timeout(TIMEOUT_S):
                    return await self._exchange("\r\n".join(lines).encode() + content)
            except (OSError, EOFError, TimeoutError, ValueError) as fault:
                return Response(0, {}, None, f"{type(fault).__name__}: {fault}")

    async def _exchange(self, request: bytes) -> Response:
        connection = self._idle.pop() if self._idle else None
        if connection is None or connection.reader.at_eof():
            connection = _Connection(*await asyncio.open_connection(self._host, self._port))
        keep = False
        try:
            connection.writer.write(request)
            await connection.writer.drain()
            response, keep = await self._read(connection.reader)
        finally:
            if keep:
                self._idle.append(connection)
            else:
                connection.writer.close()
        return response

    async def _read(self, reader: asyncio.StreamReader) -> tuple[Response, bool]:
        head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1").split("\r\n")
        status = int(head[0].split(" ", 2)[1])
        headers = {name.strip().lower(): value.strip() for name, _, value in (line.partition(":") for line in head[1:])}
        if headers.get("transfer-encoding", "").lower() == "chunked":
            content = await _chunks(reader)
        else:
            content = await reader.readexactly(int(headers.get("content-length") or 0))
        try:
            body = json.loads(content or b"{}")
        except ValueError:
            body = {"text": content[:200].decode(errors="replace")}
        keep = headers.get("connection", "").lower() != "close"
        after, poll_ms = headers.get("retry-after"), headers.get("x-poll-after-ms")
        response = Response(
            status, body if isinstance(body, dict) else {}, float(after) if after else None, "",
            float(poll_ms) / 1000 if poll_ms else None,
        )  # fmt: skip
        return response, keep

    def close(self) -> None:
        for connection in self._idle:
            connection.writer.close()


async def _chunks(reader: asyncio.StreamReader) -> bytes:
    content = b""
    while size := int((await reader.readline()).split(b";")[0], 16):
        content += await reader.readexactly(size)
        await reader.readexactly(2)
    await reader.readline()
    return content
