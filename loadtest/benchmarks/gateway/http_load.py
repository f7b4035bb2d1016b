"""Shell: what the load generators share: prepared requests, connections, whole responses, percentiles.

A generator is a process. It reads its spec as one line of JSON from stdin and writes its results as lines of JSON. Its
loops use epoll and parse hardly anything, so a request costs them a few microseconds and they do not become the
bottleneck.
"""

from __future__ import annotations

import gc
import json
import random
import socket
import sys
import time
from collections.abc import Sequence
from typing import Any, NamedTuple

import orjson

HOST = "127.0.0.1"
BUFFER = 65536
SILENCE_SECONDS_MAX = 10.0
"""If no response arrives for this long, something is broken."""


class Purchase(NamedTuple):
    """A prepared request, and the token of its buyer, which polls need."""

    content: bytes
    token: str


def prepare_purchases(port: int, sale: int, secret: str, users: str, count: int) -> list[Purchase]:
    """One purchase per user, each with a ticket, from many IP addresses. `users`: the prefix of their names."""
    from django.conf import settings

    from seckill.config.environment import Environment

    if not settings.configured:
        settings.configure(SECRET_KEY=secret, ENVIRONMENT=Environment())
    from gateway import tickets
    from seckill.web import tokens

    now_ms = time.time_ns() // 1_000_000
    chance = random.Random(users)
    made = []
    for number in range(count):
        user = f"{users}{number}"
        ticket, _ = tickets.issue_ticket(user, sale, now_ms)
        token = tokens.issue_token(user)
        head = (
            f"POST /api/v1/sales/{sale}/purchases HTTP/1.1\r\nHost: {HOST}:{port}\r\n"
            f"Authorization: Bearer {token}\r\nIdempotency-Key: first\r\nPurchase-Ticket: {ticket}\r\n"
            f"X-Forwarded-For: {random_address(chance)}\r\n"
            "Content-Type: application/json\r\nContent-Length: 14\r\n\r\n"
        )
        made.append(Purchase(head.encode() + b'{"quantity":1}', token))
    return made


def random_address(chance: random.Random) -> str:
    return f"10.{chance.randrange(256)}.{chance.randrange(256)}.{chance.randrange(256)}"


def get_request(port: int, url: str, **headers: str) -> bytes:
    lines = [f"GET {url} HTTP/1.1", f"Host: {HOST}:{port}"]
    lines += [f"{name.replace('_', '-')}: {value}" for name, value in headers.items()]
    return "\r\n".join([*lines, "", ""]).encode()


def connect(port: int) -> socket.socket:
    connection = socket.create_connection((HOST, port), timeout=SILENCE_SECONDS_MAX)
    connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    connection.settimeout(None)  # epoll says when to read; a timeout would cost one more system call each time
    return connection


def exchange(connection: socket.socket, request: bytes) -> bytes:
    """Send a request and wait for the whole response."""
    connection.settimeout(SILENCE_SECONDS_MAX)
    connection.sendall(request)
    content = b""
    while not is_whole(content):
        received = connection.recv(BUFFER)
        if not received:
            raise ConnectionError(f"the server closed the connection after {content[:300]!r}")
        content += received
    return content


def is_whole(content: bytes) -> bool:
    """The head and a body of its Content-Length, which these servers always send."""
    head_end = content.find(b"\r\n\r\n")
    if head_end < 0:
        return False
    at = content.lower().find(b"content-length:", 0, head_end)
    if at < 0:
        raise ValueError(f"a response without Content-Length: {content[:300]!r}")
    length = int(content[at + 15 : content.index(b"\r\n", at)])
    return len(content) >= head_end + 4 + length


def status_of(response: bytes) -> str:
    return response[9:12].decode()


def json_body(response: bytes) -> dict[str, Any]:
    found: dict[str, Any] = orjson.loads(response[response.index(b"\r\n\r\n") + 4 :])
    return found


def percentiles_ms(latencies_s: Sequence[float]) -> dict[str, float]:
    ordered = sorted(latencies_s)
    return {f"p{share}": 1000 * ordered[len(ordered) * share // 100] if ordered else 0.0 for share in (50, 99)}


# ── the generator's side of the conversation with the benchmark ──────────────────────────────────


def read_spec() -> dict[str, Any]:
    gc.disable()  # nothing here forms cycles, and a collection would delay requests
    spec: dict[str, Any] = json.loads(sys.stdin.readline())
    return spec


def report(**facts: Any) -> None:
    print(json.dumps(facts), flush=True)


def wait_for_permission() -> None:
    """Until the benchmark says that the next step may begin."""
    sys.stdin.readline()
