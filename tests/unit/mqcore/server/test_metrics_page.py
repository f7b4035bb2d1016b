"""As much HTTP as a scraper needs, and patience for nobody else."""

from __future__ import annotations

import asyncio
import socket

import pytest

from mqcore.metrics import Metrics
from mqcore.server import metrics_page


def ask(request: bytes) -> bytes:
    async def main() -> bytes:
        bound = socket.socket()
        bound.bind(("127.0.0.1", 0))
        server = await metrics_page.serve(Metrics(), bound)
        reader, writer = await asyncio.open_connection(*bound.getsockname())
        writer.write(request)
        try:
            return await asyncio.wait_for(reader.read(), 10)
        except ConnectionResetError:
            return b""
        finally:
            writer.close()
            server.close()

    return asyncio.run(main())


@pytest.mark.parametrize(
    ("request_line", "status"),
    [
        ("GET /metrics HTTP/1.1", 200),
        ("GET /metrics?x=1 HTTP/1.0", 200),
        ("GET /livez HTTP/1.1", 200),
        ("GET / HTTP/1.1", 404),
        ("POST /metrics HTTP/1.1", 405),
        ("HEAD /metrics HTTP/1.1", 200),
        ("\x00\xff", 405),
    ],
)
def test_requests_are_answered(request_line: str, status: int) -> None:
    answer = ask(request_line.encode("latin-1") + b"\r\nHost: x\r\n\r\n")
    head, _, body = answer.partition(b"\r\n\r\n")
    assert head.startswith(f"HTTP/1.1 {status} ".encode())
    length = int(head.split(b"Content-Length: ")[1].split(b"\r\n")[0])
    assert len(body) == (0 if request_line.startswith("HEAD") else length)


def test_a_head_without_end_gets_no_answer() -> None:
    assert ask(b"x" * 20_000) == b""


def test_who_says_nothing_is_let_go(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(metrics_page, "PATIENCE_S", 0.01)
    assert ask(b"GET /metr") == b""


def test_connections_that_ask_for_nothing_keep_nobody_out() -> None:
    async def main() -> tuple[list[bytes], list[bool]]:
        bound = socket.socket()
        bound.bind(("127.0.0.1", 0))
        async with await metrics_page.serve(Metrics(), bound):
            silent = [await asyncio.open_connection(*bound.getsockname()) for _ in range(metrics_page.MOST_REQUESTS)]
            pages = []
            for _ in range(3):
                reader, writer = await asyncio.open_connection(*bound.getsockname())
                writer.write(b"GET /livez HTTP/1.1\r\n\r\n")
                pages.append(await asyncio.wait_for(reader.read(), 10))
                writer.close()
            for _, writer in silent:
                writer.close()
            return pages, [reader.at_eof() or reader.exception() is not None for reader, _ in silent]

    pages, gone = asyncio.run(main())
    assert all(page.startswith(b"HTTP/1.1 200 ") for page in pages)
    assert gone == [True] + [False] * (metrics_page.MOST_REQUESTS - 1), "the oldest goes, and no more than are needed"
