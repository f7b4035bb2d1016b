"""The payment provider of the sandbox: which requests it accepts, and where a signed callback may go."""

from __future__ import annotations

import http.client
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from uuid import uuid4

import pytest

from loadtest.sandbox.http_server import start_server
from loadtest.sandbox.provider import Provider


@pytest.fixture
def provider(tmp_path: Path) -> Iterator[Provider]:
    made = Provider(tmp_path, "secret", ["front"])
    yield made
    made.close()


def open_payment(provider: Provider, url: str) -> int:
    body = {"id": str(uuid4()), "order_id": "7", "amount": 900, "callback_url": url}
    return provider.handle("POST", "/payments", body, {})[0]


@pytest.mark.parametrize(
    "url", ["http://127.0.0.1:8000/x", "http://localhost/x", "http://[::1]:8/x", "http://front:8080/x"]
)
def test_a_callback_to_a_known_host_is_accepted(provider: Provider, url: str) -> None:
    assert open_payment(provider, url) == 200


@pytest.mark.parametrize(
    "url",
    [
        "http://evil.example/x",
        "http://127.0.0.1@evil.example/",
        "file:///etc/hosts",
        "//front/x",
        "http://[bad/",
        "x",
        "",
    ],
)
def test_a_signed_callback_goes_to_no_other_host(provider: Provider, url: str) -> None:
    assert open_payment(provider, url) == 400


@pytest.mark.parametrize("sent", ["text/plain", "application/x-www-form-urlencoded", "multipart/form-data", ""])
def test_requests_that_any_web_page_could_send_are_refused(provider: Provider, sent: str) -> None:
    server = start_server(0, provider.handle)
    client = http.client.HTTPConnection("127.0.0.1", server.server_address[1], timeout=10)
    try:
        for kind, status in ((sent, 415), ("application/json; charset=utf-8", 200)):
            client.request("POST", "/control", '{"mode": "never"}', {"Content-Type": kind} if kind else {})
            response = client.getresponse()
            response.read()
            assert response.status == status
            assert provider.behaviour.payments.mode == ("never" if status == 200 else "at_once")
    finally:
        client.close()
        server.shutdown()
        server.server_close()


def test_a_redirect_does_not_carry_the_signature_to_another_host(provider: Provider) -> None:
    seen: list[str] = []

    class Redirecting(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            self.rfile.read(int(self.headers["Content-Length"]))
            seen.append("POST " + self.path)
            self.send_response(302)
            self.send_header("Location", "/elsewhere")
            self.send_header("Content-Length", "0")
            self.end_headers()

        def do_GET(self) -> None:
            seen.append("GET " + self.path)

        def log_message(self, *_: object) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Redirecting)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    try:
        provider._deliver("cb", str(uuid4()), "captured", 0, f"http://127.0.0.1:{server.server_address[1]}/callback")
    finally:
        server.shutdown()
        server.server_close()
    assert seen == ["POST /callback"]
