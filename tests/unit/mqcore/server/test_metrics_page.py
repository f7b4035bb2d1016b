"""The metrics page answers scrapers and health checks, and drops connections that send nothing."""

from __future__ import annotations

import asyncio

import pytest

from mqcore.host import BoundAddress, Server, SystemClock, SystemNetwork
from mqcore.metrics import Metrics
from mqcore.server import metrics_page


async def open_page() -> tuple[BoundAddress, Server]:
    bound = SystemNetwork().bind("127.0.0.1", 0)
    return bound, await metrics_page.serve(Metrics(), bound, SystemClock(asyncio.get_running_loop()))


def response_to(request: bytes) -> bytes:
    async def main() -> bytes:
        bound, server = await open_page()
        reader, writer = await asyncio.open_connection("127.0.0.1", bound.port)
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
def test_the_metrics_page_answers_by_path_and_method(request_line: str, status: int) -> None:
    answer = response_to(request_line.encode("latin-1") + b"\r\nHost: x\r\n\r\n")
    head, _, body = answer.partition(b"\r\n\r\n")
    assert head.startswith(f"HTTP/1.1 {status} ".encode())
    length = int(head.split(b"Content-Length: ")[1].split(b"\r\n")[0])
    assert len(body) == (0 if request_line.startswith("HEAD") else length)


def test_an_endless_request_head_gets_no_answer() -> None:
    assert response_to(b"x" * 20_000) == b""


def test_an_incomplete_request_times_out(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(metrics_page, "REQUEST_SECONDS_MAX", 0.01)
    assert response_to(b"GET /metr") == b""


def test_silent_connections_do_not_keep_out_a_health_check() -> None:
    async def main() -> tuple[list[bytes], list[bool]]:
        bound, server = await open_page()
        address = "127.0.0.1", bound.port
        silent = [await asyncio.open_connection(*address) for _ in range(metrics_page.REQUESTS_MAX)]
        pages = []
        for _ in range(3):
            reader, writer = await asyncio.open_connection(*address)
            writer.write(b"GET /livez HTTP/1.1\r\n\r\n")
            pages.append(await asyncio.wait_for(reader.read(), 10))
            writer.close()
        for _, writer in silent:
            writer.close()
        server.close()
        return pages, [reader.at_eof() or reader.exception() is not None for reader, _ in silent]

    pages, gone = asyncio.run(main())
    assert all(page.startswith(b"HTTP/1.1 200 ") for page in pages)
    assert gone == [True] + [False] * (metrics_page.REQUESTS_MAX - 1), "the oldest goes, and no more than are needed"
