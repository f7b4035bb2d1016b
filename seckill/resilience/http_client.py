"""Shell: one HTTP request with a JSON body and a deadline; returns status and body."""

from __future__ import annotations

import json
from collections.abc import Mapping
from http.client import HTTPConnection, HTTPException, HTTPSConnection
from typing import Any, NamedTuple
from urllib.parse import urlsplit

from seckill.monitoring import spans

RESPONSE_BYTES_MAX = 1 << 20
TRANSIENT_4XX = frozenset({408, 425, 429})


class NoResponse(ConnectionError):
    """No response, so the caller cannot know whether the request had an effect."""


class Response(NamedTuple):
    status: int
    content: bytes

    @property
    def is_refusal(self) -> bool:
        """The server understood the request and rejects it, so repeating it is useless."""
        return 400 <= self.status < 500 and self.status not in TRANSIENT_4XX

    @property
    def is_failure(self) -> bool:
        return not 200 <= self.status < 300 and not self.is_refusal


def call(method: str, url: str, body: Any, timeout_s: float, headers: Mapping[str, str] | None = None) -> Response:
    """`timeout_s` bounds each step: connecting, sending, each read of the response. Raises `NoResponse`."""
    with spans.calling(method, url) as span:
        response = _exchange(method, url, body, timeout_s, {**(headers or {}), **span.headers})
        span.record_status(response.status)
        return response


def _exchange(method: str, url: str, body: Any, timeout_s: float, headers: Mapping[str, str]) -> Response:
    parts = urlsplit(url)
    kind = HTTPSConnection if parts.scheme == "https" else HTTPConnection
    connection = kind(parts.hostname or "", parts.port, timeout=timeout_s)
    try:
        content = None if body is None else json.dumps(body).encode()
        path = f"{parts.path or '/'}?{parts.query}" if parts.query else parts.path or "/"
        connection.request(method, path, content, {"Content-Type": "application/json", **headers})
        with connection.getresponse() as response:
            return Response(response.status, response.read(RESPONSE_BYTES_MAX))
    except (OSError, HTTPException) as fault:
        raise NoResponse(f"{method} {parts.path}: {str(fault) or type(fault).__name__}") from fault
    finally:
        connection.close()
