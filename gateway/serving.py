"""Shell: Django on Granian's one event loop (its interface RSGI): what only waits holds no thread.

A request that does nothing but compute and wait for an event of the loop is worked on by a greenlet of the loop's own
thread: where it waits, the loop goes on with others. Threads that take turns for the interpreter's lock cost more than
what they do (docs/decisions/0025). Everything else may block - database, Redis, files - and gets a thread.

What runs on the loop must not block; Django itself refuses it the database (SynchronousOnlyOperation).
"""

from __future__ import annotations

import logging
from asyncio import AbstractEventLoop, Future, timeout
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import lru_cache
from io import BytesIO
from typing import Any, NamedTuple

from django.conf import settings
from django.core.handlers.wsgi import WSGIHandler
from django.core.signals import request_started
from django.http.response import HttpResponseBase
from granian.rsgi import ProtocolClosed  # type: ignore[attr-defined]  # named there, though not exported
from greenlet import greenlet

from seckill.web.problems import problem_response as problem_answer
from seckill.web.request_limits import BODY_SECONDS_MAX, body_timeout, unreadable_header

log = logging.getLogger(__name__)

THREADS = 128

Environ = dict[str, Any]
Headers = list[tuple[str, str]]


class Answer(NamedTuple):
    status: int
    headers: Headers
    body: bytes


class Serving:
    """`stays(method, path)`: is it worked on on the loop? `begin`: told of the loop before the first request."""

    def __init__(self, stays: Callable[[str, str], bool], begin: Callable[[AbstractEventLoop], None]) -> None:
        self._stays, self._begin = stays, begin
        self._handler = WSGIHandler()
        self._threads = ThreadPoolExecutor(THREADS, thread_name_prefix="request")

    def __rsgi_init__(self, loop: AbstractEventLoop) -> None:
        self._loop = loop
        self._begin(loop)

    async def __rsgi__(self, scope: Any, protocol: Any) -> None:
        if scope.proto != "http":
            protocol.close(None)  # a WebSocket: refused in its handshake
            return
        headers = scope.headers.items()
        if len(headers) < len(scope.headers.keys()):  # Granian leaves out what is not ASCII
            protocol.response_bytes(*answer_of(problem_answer(unreadable_header())))
            return
        environ = environ_of(scope, headers)
        length = environ.get("CONTENT_LENGTH", "")
        # More is not read: Django says by the length alone that it is too much.
        is_read = length.isdecimal() and 0 < int(length) <= settings.DATA_UPLOAD_MAX_MEMORY_SIZE
        try:
            environ["wsgi.input"] = BytesIO(await _body(protocol) if is_read else b"")
        except ProtocolClosed:
            return  # he hung up before he had said all
        except TimeoutError:
            late = answer_of(problem_answer(body_timeout()))
            protocol.response_bytes(late.status, [*late.headers, ("connection", "close")], late.body)
            return
        if self._stays(scope.method, scope.path):
            done = self._loop.create_future()
            greenlet(self._stay).switch(environ, protocol, done)
            await done
        else:
            answer = await self._loop.run_in_executor(self._threads, self._answer, environ)
            protocol.response_bytes(*answer)

    def _stay(self, environ: Environ, protocol: Any, done: Future[None]) -> None:
        """On a greenlet. No signals: they are for connections to the database."""
        try:
            protocol.response_bytes(*answer_of(self._respond(environ)))
        except Exception:  # whoever has woken this greenlet shall go on
            log.exception("a request could not be answered")
        if not done.done():
            done.set_result(None)

    def _answer(self, environ: Environ) -> Answer:
        """On a thread."""
        request_started.send(sender=type(self._handler), environ=environ)
        response = self._respond(environ)
        try:
            return answer_of(response)
        finally:
            response.close()

    def _respond(self, environ: Environ) -> HttpResponseBase:
        return self._handler.get_response(self._handler.request_class(environ))


async def _body(protocol: Any) -> bytes:
    async with timeout(BODY_SECONDS_MAX):
        return bytes(await protocol())


def environ_of(scope: Any, headers: Headers | None = None) -> Environ:
    """What WSGI calls the same, as far as Django looks at it. The server has no name of its own: without a host a
    request is none. `headers` are those of the scope, if the caller has read them already."""
    environ: Environ = {
        "REQUEST_METHOD": scope.method, "SCRIPT_NAME": "", "PATH_INFO": _as_bytes(scope.path),
        "QUERY_STRING": _as_bytes(scope.query_string), "SERVER_NAME": "", "SERVER_PORT": "",
        "REMOTE_ADDR": scope.client.rpartition(":")[0].strip("[]"), "SERVER_PROTOCOL": f"HTTP/{scope.http_version}",
        "wsgi.url_scheme": scope.scheme,
    }  # fmt: skip
    if scope.authority:
        environ["HTTP_HOST"] = scope.authority
    repeated: dict[str, list[str]] = {}
    for header, value in scope.headers.items() if headers is None else headers:
        if "_" in header or (header == "host" and scope.authority):
            continue  # no other name shall pass for one that a proxy of ours vouches for
        key = _named(header)
        if key in environ:
            repeated.setdefault(key, [environ[key]]).append(value)
        else:
            environ[key] = value
    for key, values in repeated.items():  # joined once: appending one by one would copy all before
        environ[key] = ("; " if key == "HTTP_COOKIE" else ",").join(values)
    return environ


def answer_of(response: HttpResponseBase) -> Answer:
    headers = [(name.lower(), value) for name, value in response.items()]
    headers += [("set-cookie", cookie.OutputString()) for cookie in response.cookies.values()]
    body = b"".join(response) if response.streaming else response.content  # type: ignore[attr-defined]
    return Answer(response.status_code, headers, body)


def _as_bytes(text: str) -> str:
    """WSGI has bytes in text, one for each character."""
    return text if text.isascii() else text.encode().decode("latin-1")


@lru_cache(maxsize=1024)
def _named(header: str) -> str:
    name = header.upper().replace("-", "_")
    return name if name in ("CONTENT_LENGTH", "CONTENT_TYPE") else f"HTTP_{name}"
