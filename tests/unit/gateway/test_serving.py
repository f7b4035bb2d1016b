"""Django on the loop: who stays there, who gets a thread, and that both see the request as WSGI shows it."""

from __future__ import annotations

import asyncio
import json
import logging
import threading
from collections.abc import Callable
from typing import Any

import pytest
from django.contrib.auth.models import User
from django.http import HttpRequest, HttpResponse, StreamingHttpResponse
from django.urls import path
from django.views.decorators.csrf import csrf_exempt
from gateway.serving import Answer, Serving, answer_of, environ_of
from granian.rsgi import ProtocolClosed  # type: ignore[attr-defined]  # named there, though not exported
from greenlet import getcurrent

LIMIT = 1000
pytestmark = pytest.mark.urls(__name__)

waiting: list[Callable[[str], Any]] = []


def waits(request: HttpRequest) -> HttpResponse:
    me = getcurrent()
    waiting.append(me.switch)
    assert me.parent is not None
    return HttpResponse(me.parent.switch())


@csrf_exempt
def where(request: HttpRequest) -> HttpResponse:
    return HttpResponse(f"{threading.get_ident()} {request.body.decode()}")


def database(request: HttpRequest) -> HttpResponse:
    return HttpResponse(str(User.objects.count()))


urlpatterns = [path("api/v1/waits", waits), path("api/v1/where", where), path("api/v1/database", database)]


class Headers:
    def __init__(self, *items: tuple[str, str]) -> None:
        self._items = items

    def items(self) -> list[tuple[str, str]]:
        return [(name, value) for name, value in self._items if value.isascii()]

    def keys(self) -> list[str]:
        return [name for name, _ in self._items]


class Scope:
    """What Granian hands over, as far as it is looked at."""

    proto, http_version, scheme, query_string, authority = "http", "1.1", "http", "", None

    def __init__(self, path: str, *headers: tuple[str, str], method: str = "GET", **more: Any) -> None:
        self.path, self.method, self.client = path, method, "127.0.0.1:5000"
        self.headers = Headers(("host", "testserver"), *headers)
        vars(self).update(more)


class Protocol:
    def __init__(self, body: bytes = b"") -> None:
        self._body = body
        self.is_read = False
        self.answer: Answer | None = None

    async def __call__(self) -> bytes:
        self.is_read = True
        return self._body

    def response_bytes(self, *answer: Any) -> None:
        self.answer = Answer(*answer)


def serving(*stay: str) -> Serving:
    made = Serving(lambda method, path: path in stay, lambda loop: None)
    made.__rsgi_init__(asyncio.get_running_loop())
    return made


async def asked(made: Serving, scope: Scope, body: bytes = b"") -> tuple[Answer, Protocol]:
    protocol = Protocol(body)
    await made.__rsgi__(scope, protocol)
    assert protocol.answer is not None
    return protocol.answer, protocol


def test_many_wait_on_the_loop_at_once_and_each_gets_his_own() -> None:
    async def work() -> list[bytes]:
        made = serving("/api/v1/waits")
        tasks = [asyncio.create_task(asked(made, Scope("/api/v1/waits"))) for _ in range(50)]
        await asyncio.sleep(0)
        assert len(waiting) == 50
        threads = threading.active_count()
        for number, settle in reversed(list(enumerate(waiting))):
            settle(str(number))
        assert threading.active_count() == threads
        return [(await task)[0].body for task in tasks]

    waiting.clear()
    assert asyncio.run(work()) == [str(number).encode() for number in range(50)]


def test_who_stays_is_on_the_loops_thread_and_nobody_else_is() -> None:
    async def work(*stay: str) -> bool:
        headers = ("content-length", "4"), ("content-type", "text/plain")
        answer, _ = await asked(serving(*stay), Scope("/api/v1/where", *headers, method="POST"), b"body")
        thread, body = answer.body.decode().split(" ")
        assert (answer.status, body) == (200, "body")
        return int(thread) == threading.get_ident()

    assert asyncio.run(work("/api/v1/where"))
    assert not asyncio.run(work())


def test_what_would_block_the_loop_is_refused(caplog: pytest.LogCaptureFixture) -> None:
    """Without a database at hand: Django does not come as far as asking one."""

    async def work() -> Answer:
        return (await asked(serving("/api/v1/database"), Scope("/api/v1/database")))[0]

    with caplog.at_level(logging.CRITICAL):
        assert asyncio.run(work()).status == 500


def test_a_body_that_is_too_large_is_not_read(settings: Any) -> None:
    settings.DATA_UPLOAD_MAX_MEMORY_SIZE = LIMIT

    async def work(length: int) -> tuple[int, bool]:
        scope = Scope("/api/v1/where", ("content-length", str(length)), method="POST")
        answer, protocol = await asked(serving(), scope, b"x" * length)
        return answer.status, protocol.is_read

    assert asyncio.run(work(LIMIT)) == (200, True)
    assert asyncio.run(work(LIMIT + 1)) == (400, False)


def test_who_wakes_a_request_does_not_suffer_from_its_failure(caplog: pytest.LogCaptureFixture) -> None:
    class Gone(Protocol):
        def response_bytes(self, *answer: Any) -> None:
            raise RuntimeError("nobody is there any more")

    async def work() -> None:
        task = asyncio.create_task(serving("/api/v1/waits").__rsgi__(Scope("/api/v1/waits"), Gone()))
        await asyncio.sleep(0)
        waiting.pop()("woken")
        await task

    waiting.clear()
    asyncio.run(work())
    assert "a request could not be answered" in caplog.text


def test_who_hangs_up_before_he_has_said_all_is_no_fault_of_ours() -> None:
    class Cut(Protocol):
        async def __call__(self) -> bytes:
            raise ProtocolClosed

    async def work() -> None:
        protocol = Cut()
        await serving().__rsgi__(Scope("/api/v1/where", ("content-length", "4"), method="POST"), protocol)
        assert protocol.answer is None

    asyncio.run(work())


def test_a_body_that_does_not_arrive_in_time_is_408_and_ends_the_connection(monkeypatch: pytest.MonkeyPatch) -> None:
    class Stalled(Protocol):
        async def __call__(self) -> bytes:
            await asyncio.Event().wait()
            raise AssertionError

    async def work() -> Answer | None:
        protocol = Stalled()
        await serving().__rsgi__(Scope("/api/v1/where", ("content-length", "4"), method="POST"), protocol)
        return protocol.answer

    monkeypatch.setattr("gateway.serving.BODY_SECONDS_MAX", 0.0)
    answer = asyncio.run(work())
    assert answer is not None and answer.status == 408
    assert ("connection", "close") in answer.headers


def test_a_websocket_is_refused_and_nothing_else_is_done() -> None:
    class WebSocket:
        closed: object = "open"

        def close(self, status: int | None) -> None:
            self.closed = status

    async def work() -> object:
        protocol = WebSocket()
        await serving().__rsgi__(Scope("/api/v1/where", proto="ws"), protocol)
        return protocol.closed

    assert asyncio.run(work()) is None


def test_a_header_that_is_not_ascii_is_refused_not_left_out() -> None:
    async def work() -> Answer:
        return (await asked(serving(), Scope("/api/v1/where", ("x-forwarded-for", "1.2.3.4\xff"))))[0]

    answer = asyncio.run(work())
    assert (answer.status, json.loads(answer.body)["type"]) == (400, "/problems/bad-header")


def test_a_header_that_is_repeated_is_joined_in_the_order_of_its_values() -> None:
    values = [str(number) for number in range(20_000)]
    scope = Scope("/", *(("x-many", value) for value in values), ("cookie", "a=b"), ("cookie", "c=d"))
    environ = environ_of(scope)
    assert environ["HTTP_X_MANY"] == ",".join(values)
    assert environ["HTTP_COOKIE"] == "a=b; c=d"


def test_a_request_looks_as_wsgi_shows_it() -> None:
    headers = (
        ("x-forwarded-for", "1.2.3.4"), ("x-forwarded-for", "5.6.7.8"), ("cookie", "a=b"), ("cookie", "c=d"),
        ("x_forwarded_for", "9.9.9.9"), ("content-type", "text/plain"), ("content-length", "4"),
    )  # fmt: skip
    scope = Scope("/ä", *headers, method="POST", query_string="q=€", client="[::1]:5000", scheme="https")
    environ = environ_of(scope)
    assert environ["HTTP_X_FORWARDED_FOR"] == "1.2.3.4,5.6.7.8"  # and not what would pass for it
    assert environ["HTTP_COOKIE"] == "a=b; c=d"
    assert (environ["CONTENT_TYPE"], environ["CONTENT_LENGTH"]) == ("text/plain", "4")
    assert environ["PATH_INFO"].encode("latin-1").decode() == "/ä"
    assert environ["QUERY_STRING"].encode("latin-1").decode() == "q=€"
    assert (environ["REMOTE_ADDR"], environ["wsgi.url_scheme"], environ["HTTP_HOST"]) == ("::1", "https", "testserver")


def test_the_authority_of_http_2_is_the_host_whatever_the_header_says() -> None:
    assert environ_of(Scope("/", authority="shop.example"))["HTTP_HOST"] == "shop.example"


def test_an_answer_keeps_its_cookies_apart_and_its_pieces_together() -> None:
    response = StreamingHttpResponse([b"a", b"b"], status=201, headers={"X-Kind": "odd"})
    response.set_cookie("one", "1")
    response.set_cookie("two", "2")
    answer = answer_of(response)
    assert (answer.status, answer.body) == (201, b"ab")
    assert ("x-kind", "odd") in answer.headers
    assert [value for name, value in answer.headers if name == "set-cookie"] == ["one=1; Path=/", "two=2; Path=/"]
