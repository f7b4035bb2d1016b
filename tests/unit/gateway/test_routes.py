"""The application as Granian calls it: its own routes, Django's, and what goes wrong in between."""

from __future__ import annotations

import asyncio
import json
import threading
from typing import Any

import pytest
from django.http import HttpRequest, HttpResponse, StreamingHttpResponse
from django.urls import path
from django.views.decorators.csrf import csrf_exempt
from granian.rsgi import ProtocolClosed  # type: ignore[attr-defined]  # named there, though not exported

from gateway.django_threads import read_response, wsgi_environ
from gateway.http import read_request
from gateway.routes import Gateway
from tests.gateway_loop import Protocol, Scope

LIMIT = 1000
HOST = ("host", "testserver")
pytestmark = pytest.mark.urls(__name__)


@csrf_exempt
def where(request: HttpRequest) -> HttpResponse:
    return HttpResponse(f"{threading.get_ident()} {request.body.decode()}")


urlpatterns = [path("api/v1/where", where)]


def served(scope: Scope, protocol: Protocol, gateway: Gateway | None = None) -> Protocol:
    async def serve() -> None:
        made = gateway or Gateway(connections_max=100)
        made._loop = asyncio.get_running_loop()
        await made.__rsgi__(scope, protocol)

    asyncio.run(serve())
    return protocol


def test_what_django_serves_runs_on_another_thread() -> None:
    scope = Scope("POST", "/api/v1/where", [HOST, ("content-length", "4"), ("content-type", "text/plain")])
    answer = served(scope, Protocol(b"body"))
    thread, body = answer.content.decode().split(" ")
    assert (answer.status, body) == (200, "body")
    assert int(thread) != threading.get_ident()


def test_being_alive_needs_no_thread() -> None:
    gateway = Gateway(connections_max=100)
    gateway._django.close()
    answer = served(Scope("GET", "/livez", [HOST]), Protocol(), gateway)
    assert (answer.status, answer.content) == (200, b"ok\n")
    assert ("x-frame-options", "DENY") in answer.headers


@pytest.mark.parametrize(
    ("method", "address", "allowed"),
    [
        ("GET", "/api/v1/sales/1/purchases", "POST"),
        ("HEAD", "/api/v1/sales", "GET"),
        ("DELETE", "/api/v1/purchases/01234567-89ab-8def-8123-456789abcdef", "GET"),
    ],
)
def test_another_method_is_refused_and_the_right_one_named(method: str, address: str, allowed: str) -> None:
    answer = served(Scope(method, address, [HOST]), Protocol())
    assert (answer.status, dict(answer.headers)["allow"]) == (405, allowed)


@pytest.mark.parametrize("address", ["/api/v1/sales/" + "9" * 40, "/api/v1/sales/x", "/api/v1/sales/1/purchases/"])
def test_a_malformed_address_is_not_found(address: str) -> None:
    assert served(Scope("GET", address, [HOST]), Protocol()).status == 404


def test_a_body_that_is_too_large_for_django_is_not_read(settings: Any) -> None:
    settings.DATA_UPLOAD_MAX_MEMORY_SIZE = LIMIT

    class Counting(Protocol):
        is_read = False

        async def __call__(self) -> bytes:
            self.is_read = True
            return await super().__call__()

    def post(length: int) -> tuple[int, bool]:
        protocol = Counting(b"x" * length)
        served(Scope("POST", "/api/v1/where", [HOST, ("content-length", str(length))]), protocol)
        return protocol.status, protocol.is_read

    assert post(LIMIT) == (200, True)
    assert post(LIMIT + 1) == (400, False)


def test_a_client_that_disconnects_before_it_has_sent_everything_gets_no_answer_and_fills_no_log(
    caplog: pytest.LogCaptureFixture,
) -> None:
    class Cut(Protocol):
        async def __call__(self) -> bytes:
            raise ProtocolClosed

    assert served(Scope("POST", "/api/v1/where", [HOST, ("content-length", "4")]), Cut()).status == 0
    assert not caplog.records


def test_an_unforeseen_error_is_logged_and_tells_the_client_nothing_of_itself(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def fail() -> None:
        raise RuntimeError("secret")

    monkeypatch.setattr("gateway.sales.list_sales_on_loop", fail)
    answer = served(Scope("GET", "/api/v1/sales", [HOST]), Protocol())
    assert (answer.status, json.loads(answer.content)["type"]) == (500, "/problems/internal")
    assert b"secret" not in answer.content
    assert "a request failed" in caplog.text


def test_a_websocket_is_refused_during_its_handshake() -> None:
    assert served(Scope("GET", "/api/v1/where", [HOST], proto="ws"), Protocol()).is_closed


def test_django_sees_a_request_as_wsgi_shows_it() -> None:
    headers = [
        HOST, ("x-forwarded-for", "1.2.3.4"), ("x-forwarded-for", "5.6.7.8"), ("cookie", "a=b"), ("cookie", "c=d"),
        ("x_forwarded_for", "9.9.9.9"), ("content-type", "text/plain"), ("content-length", "4"),
    ]  # fmt: skip
    scope = Scope("POST", "/\u00e4", headers, query_string="q=\u20ac", client="[::1]:5000", scheme="https")
    environ = wsgi_environ(read_request(scope, Protocol()))
    assert environ["HTTP_X_FORWARDED_FOR"] == "1.2.3.4,5.6.7.8"
    assert environ["HTTP_COOKIE"] == "a=b; c=d"
    assert (environ["CONTENT_TYPE"], environ["CONTENT_LENGTH"]) == ("text/plain", "4")
    assert environ["PATH_INFO"].encode("latin-1").decode() == "/\u00e4"
    assert environ["QUERY_STRING"].encode("latin-1").decode() == "q=\u20ac"
    assert (environ["REMOTE_ADDR"], environ["wsgi.url_scheme"], environ["HTTP_HOST"]) == ("::1", "https", "testserver")


def test_the_authority_of_an_absolute_address_is_the_host_whatever_the_header_says() -> None:
    scope = Scope("GET", "/", [HOST], authority="shop.example")
    assert wsgi_environ(read_request(scope, Protocol()))["HTTP_HOST"] == "shop.example"


def test_a_response_of_django_keeps_its_cookies_apart_and_its_pieces_together() -> None:
    response = StreamingHttpResponse([b"a", b"b"], status=201, headers={"X-Kind": "odd"})
    response.set_cookie("one", "1")
    response.set_cookie("two", "2")
    answer = read_response(response)
    assert (answer.status, answer.body) == (201, b"ab")
    assert ("x-kind", "odd") in answer.headers
    assert [value for name, value in answer.headers if name == "set-cookie"] == ["one=1; Path=/", "two=2; Path=/"]
