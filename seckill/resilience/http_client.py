"""Shell: one HTTP request to the world outside: JSON there, status and body back, within a deadline."""

from __future__ import annotations

import json
from collections.abc import Mapping
from http.client import HTTPConnection, HTTPException, HTTPSConnection
from typing import Any, NamedTuple
from urllib.parse import urlsplit

MOST_ANSWER = 1 << 20
PASSING_4XX = frozenset({408, 425, 429})


class NoAnswer(ConnectionError):
    """Nobody knows whether anything happened."""


class Answered(NamedTuple):
    status: int
    content: bytes

    @property
    def is_refusal(self) -> bool:
        """It has understood and says no: asking the same again is of no use."""
        return 400 <= self.status < 500 and self.status not in PASSING_4XX

    @property
    def is_failure(self) -> bool:
        return not 200 <= self.status < 300 and not self.is_refusal


def call(method: str, url: str, body: Any, timeout_s: float, headers: Mapping[str, str] | None = None) -> Answered:
    """`body` None: none is sent. `timeout_s` is for each step: connecting, sending, each part of the answer."""
    parts = urlsplit(url)
    kind = HTTPSConnection if parts.scheme == "https" else HTTPConnection
    connection = kind(parts.hostname or "", parts.port, timeout=timeout_s)
    try:
        content = None if body is None else json.dumps(body).encode()
        path = f"{parts.path or '/'}?{parts.query}" if parts.query else parts.path or "/"
        connection.request(method, path, content, {"Content-Type": "application/json", **(headers or {})})
        with connection.getresponse() as answer:
            return Answered(answer.status, answer.read(MOST_ANSWER))
    except (OSError, HTTPException) as fault:
        raise NoAnswer(f"{method} {parts.path}: {str(fault) or type(fault).__name__}") from fault
    finally:
        connection.close()
