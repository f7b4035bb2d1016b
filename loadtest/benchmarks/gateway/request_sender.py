"""Shell: the load generator: prepared requests over kept-alive connections, the next one as soon as a response arrives.

Runs as `python -m loadtest.benchmarks.gateway.request_sender`, with a spec on stdin and the result on stdout. One epoll
loop that reads nothing but the status line takes a few microseconds per request, so it does not become the bottleneck.
"""

from __future__ import annotations

import json
import random
import select
import socket
import sys
import time
from collections import Counter
from dataclasses import dataclass, field

BUFFER = 65536
SILENCE_SECONDS_MAX = 10.0
"""If no response arrives for this long, something is broken."""


@dataclass(slots=True)
class LoadSpec:
    """What to send. With `secret` and `sale`, the sender makes valid tokens and tickets itself."""

    port: int
    sale: int
    secret: str
    users: str  # the prefix of their names
    requests: int
    connections: int
    seconds: float


@dataclass(slots=True)
class LoadResult:
    seconds: float = 0.0
    cpu_s: float = 0.0
    statuses: Counter[str] = field(default_factory=Counter)
    latencies_ms: dict[str, float] = field(default_factory=dict)


def prepare_requests(spec: LoadSpec) -> list[bytes]:
    """One request per user, each with a ticket, from many IP addresses."""
    from django.conf import settings

    from seckill.config.environment import Environment

    if not settings.configured:
        settings.configure(SECRET_KEY=spec.secret, ENVIRONMENT=Environment())
    from gateway import tickets
    from seckill.web import tokens

    now_ms = time.time_ns() // 1_000_000
    chance = random.Random(spec.users)
    made = []
    for number in range(spec.requests):
        user = f"{spec.users}{number}"
        ticket, _ = tickets.issue_ticket(user, spec.sale, now_ms)
        address = f"10.{chance.randrange(256)}.{chance.randrange(256)}.{chance.randrange(256)}"
        head = (
            f"POST /api/v1/sales/{spec.sale}/purchases HTTP/1.1\r\nHost: 127.0.0.1:{spec.port}\r\n"
            f"Authorization: Bearer {tokens.issue_token(user)}\r\n"
            f"Idempotency-Key: first\r\nPurchase-Ticket: {ticket}\r\n"
            f"X-Forwarded-For: {address}\r\nContent-Type: application/json\r\nContent-Length: 14\r\n\r\n"
        )
        made.append(head.encode() + b'{"quantity":1}')
    return made


def send_requests(port: int, requests: list[bytes], connections: int, seconds: float) -> LoadResult:
    """Until the time or the requests run out. Responses that arrive later are awaited but not counted."""
    result, latencies = LoadResult(), list[float]()
    supply = iter(requests)
    poller = select.epoll()
    sockets: dict[int, socket.socket] = {}
    sent_at: dict[int, float] = {}
    rest: dict[int, bytes] = {}
    for _ in range(connections):
        each = socket.create_connection(("127.0.0.1", port), timeout=SILENCE_SECONDS_MAX)
        each.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        sockets[each.fileno()], rest[each.fileno()] = each, b""
        poller.register(each.fileno(), select.EPOLLIN)
    cpu, began = time.process_time(), time.perf_counter()
    over = began + seconds
    for name, each in sockets.items():
        each.sendall(next(supply))
        sent_at[name] = began
    now = began
    while sent_at:
        ready = poller.poll(SILENCE_SECONDS_MAX)
        now = time.perf_counter()
        if not ready:
            raise TimeoutError(f"no response within {SILENCE_SECONDS_MAX:.0f} s")
        for name, _ in ready:
            each = sockets[name]
            content = rest[name] + each.recv(BUFFER)
            if not _is_whole(content):
                rest[name] = content
                continue
            rest[name] = b""
            began_at = sent_at.pop(name)
            if now < over:
                latencies.append(now - began_at)
                result.statuses[content[9:12].decode()] += 1
                following = next(supply, None)
                if following is None:
                    over = now
                    continue
                sent_at[name] = now
                each.sendall(following)
    result.seconds = min(now, over) - began
    result.cpu_s = time.process_time() - cpu
    latencies.sort()
    for share in (50, 99):
        result.latencies_ms[f"p{share}"] = 1000 * latencies[len(latencies) * share // 100] if latencies else 0.0
    for each in sockets.values():
        each.close()
    return result


def _is_whole(content: bytes) -> bool:
    """The head and a body of its Content-Length, which these servers always send."""
    head_end = content.find(b"\r\n\r\n")
    if head_end < 0:
        return False
    at = content.lower().find(b"content-length:", 0, head_end)
    if at < 0:
        raise ValueError(f"a response without Content-Length: {content[:300]!r}")
    length = int(content[at + 15 : content.index(b"\r\n", at)])
    return len(content) >= head_end + 4 + length


def main() -> int:
    spec = LoadSpec(**json.load(sys.stdin))
    result = send_requests(spec.port, prepare_requests(spec), spec.connections, spec.seconds)
    json.dump(
        {
            "seconds": result.seconds,
            "cpu_s": result.cpu_s,
            "statuses": result.statuses,
            "latencies_ms": result.latencies_ms,
        },
        sys.stdout,
    )
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
