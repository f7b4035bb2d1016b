"""Shell: Django for everything that the event loop does not serve itself: pages, sessions, orders, console, admin.

A request is worked on by one of a few threads, because Django and what it calls (database, files, templates) block.
"""

from __future__ import annotations

from asyncio import AbstractEventLoop
from concurrent.futures import ThreadPoolExecutor
from functools import lru_cache
from io import BytesIO
from typing import Any

from django.conf import settings
from django.core.handlers.wsgi import WSGIHandler
from django.core.signals import request_started
from django.http.response import HttpResponseBase

from gateway.from_threads import THREADS
from gateway.http import Request, Response, read_body

Environ = dict[str, Any]


class DjangoThreads:
    def __init__(self) -> None:
        self._handler = WSGIHandler()
        self._threads = ThreadPoolExecutor(THREADS, thread_name_prefix="django")

    async def respond(self, request: Request, loop: AbstractEventLoop) -> Response:
        environ = wsgi_environ(request)
        length = environ.get("CONTENT_LENGTH", "")
        # A longer body is not read: Django refuses it by its length alone.
        is_read = length.isdecimal() and 0 < int(length) <= settings.DATA_UPLOAD_MAX_MEMORY_SIZE
        environ["wsgi.input"] = BytesIO(await read_body(request.protocol) if is_read else b"")
        return await loop.run_in_executor(self._threads, self._respond, environ)

    def close(self) -> None:
        self._threads.shutdown(wait=False, cancel_futures=True)

    def _respond(self, environ: Environ) -> Response:
        request_started.send(sender=type(self._handler), environ=environ)
        response = self._handler.get_response(self._handler.request_class(environ))
        try:
            return read_response(response)
        finally:
            response.close()


def wsgi_environ(request: Request) -> Environ:
    """As far as Django reads it. The server has no name of its own: a request without a host is refused."""
    scope = request.scope
    environ: Environ = {
        "REQUEST_METHOD": scope.method, "SCRIPT_NAME": "", "PATH_INFO": _as_bytes(scope.path),
        "QUERY_STRING": _as_bytes(scope.query_string), "SERVER_NAME": "", "SERVER_PORT": "",
        "REMOTE_ADDR": request.peer, "SERVER_PROTOCOL": f"HTTP/{scope.http_version}",
        "wsgi.url_scheme": scope.scheme,
    }  # fmt: skip
    environ |= {_variable(name): value for name, value in request.headers.items()}
    if scope.authority:
        environ["HTTP_HOST"] = scope.authority
    return environ


def read_response(response: HttpResponseBase) -> Response:
    headers = [(name.lower(), value) for name, value in response.items()]
    headers += [("set-cookie", cookie.OutputString()) for cookie in response.cookies.values()]
    body = b"".join(response) if response.streaming else response.content  # type: ignore[attr-defined]
    return Response(response.status_code, headers, body)


def _as_bytes(text: str) -> str:
    """WSGI represents bytes as text, one character for each."""
    return text if text.isascii() else text.encode().decode("latin-1")


@lru_cache(maxsize=1024)
def _variable(header: str) -> str:
    name = header.upper().replace("-", "_")
    return name if name in ("CONTENT_LENGTH", "CONTENT_TYPE") else f"HTTP_{name}"
