"""The load generators against a small server of the test: whole responses, counted statuses, polls of one's own."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest

from loadtest.benchmarks.gateway import open_loop
from loadtest.benchmarks.gateway.closed_loop import send_requests
from loadtest.benchmarks.gateway.http_load import Purchase, is_whole, percentiles_ms
from loadtest.benchmarks.gateway.open_loop import OpenLoop, OpenLoopSpec


class ShopHandler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def do_POST(self) -> None:
        self.rfile.read(int(self.headers["Content-Length"]))
        user = self.headers["Authorization"].removeprefix("Bearer ")
        if user == "refused":
            self._answer(503, b"{}")
        else:
            self._answer(202, f'{{"status_url": "/status/{user}"}}'.encode())

    def do_GET(self) -> None:
        """The status of another buyer's purchase is 404."""
        owner = self.path.removeprefix("/status/")
        self._answer(200 if self.headers["Authorization"] == f"Bearer {owner}" else 404, b"{}")

    def _answer(self, status: int, body: bytes) -> None:
        self.send_response(status)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: object) -> None:
        pass


@pytest.fixture
def port() -> Iterator[int]:
    with ThreadingHTTPServer(("127.0.0.1", 0), ShopHandler) as server:
        server.daemon_threads = True
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        yield server.server_address[1]
        server.shutdown()
        thread.join()


def purchase(user: str) -> Purchase:
    head = f"POST /buy HTTP/1.1\r\nHost: test\r\nAuthorization: Bearer {user}\r\nContent-Length: 2\r\n\r\n"
    return Purchase(head.encode() + b"{}", user)


def test_a_response_is_whole_once_its_body_has_arrived() -> None:
    response = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n{}"
    assert is_whole(response)
    assert not any(is_whole(response[:length]) for length in range(len(response)))


def test_a_response_without_a_length_is_an_error_and_not_awaited() -> None:
    with pytest.raises(ValueError, match="Content-Length"):
        is_whole(b"HTTP/1.1 200 OK\r\n\r\n")


def test_percentiles_of_nothing_are_zero() -> None:
    assert percentiles_ms([]) == {"p50": 0.0, "p99": 0.0}
    assert percentiles_ms([number / 1000 for number in range(100)]) == {"p50": 50.0, "p99": 99.0}


def test_a_closed_loop_sends_each_request_once_and_counts_the_answers(port: int) -> None:
    requests = [purchase("refused" if number % 10 == 0 else f"u{number}").content for number in range(50)]
    accepted: list[bytes] = []
    result = send_requests(port, requests, connections=4, seconds=60, on_accepted=accepted.append)
    assert result.statuses == {"202": 45, "503": 5}
    assert len(accepted) == 45


def test_an_open_loop_polls_accepted_purchases_with_their_buyers_tokens(
    port: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(
        open_loop, "prepare_purchases", lambda *_: [purchase(f"u{number}") for number in range(41)]
    )  # fmt: skip
    monkeypatch.setattr(open_loop, "LEAD_IN_S", 0.1)
    spec = OpenLoopSpec(port, 1, "", "u", 0.1, purchases_s=200, polls_s=100, purchase_connections=4, poll_connections=2)
    load = OpenLoop(spec)
    load.buy_once()
    load.run()
    assert {stream.name: dict(stream.statuses) for stream in load.streams} == {
        "purchases": {"202": 40}, "polls": {"200": 20},
    }  # fmt: skip
    load.close()
