"""Shell: the load: requests made beforehand, sent over kept-alive connections as fast as each one's answer is there.

Run as a process of its own (`python -m loadtest.gateway.firing`, a spec on stdin, the result on stdout). One epoll loop
that looks at a status line and no more: a few microseconds a request, so that it is not what is measured.
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
QUIET_S = 10.0
"""Without any answer for so long, something is broken."""


@dataclass(slots=True)
class Spec:
    """What to fire. `secret` and `sale` make tokens and tickets that the gateway takes for its own."""

    port: int
    sale: int
    secret: str
    users: str  # the beginning of their names
    requests: int
    connections: int
    seconds: float


@dataclass(slots=True)
class Shots:
    seconds: float = 0.0
    cpu_s: float = 0.0
    answers: Counter[str] = field(default_factory=Counter)
    latencies_ms: dict[str, float] = field(default_factory=dict)


def prepared(spec: Spec) -> list[bytes]:
    """Each from another user, with a ticket of his, from one of many addresses."""
    from django.conf import settings

    from seckill.environment import Environment

    if not settings.configured:
        settings.configure(SECRET_KEY=spec.secret, ENVIRONMENT=Environment())
    from gateway import tickets
    from seckill import tokens

    now_ms = time.time_ns() // 1_000_000
    chance = random.Random(spec.users)
    made = []
    for number in range(spec.requests):
        user = f"{spec.users}{number}"
        ticket, _ = tickets.issue(user, spec.sale, now_ms)
        address = f"10.{chance.randrange(256)}.{chance.randrange(256)}.{chance.randrange(256)}"
        head = (
            f"POST /api/v1/sales/{spec.sale}/purchases HTTP/1.1\r\nHost: 127.0.0.1:{spec.port}\r\n"
            f"Authorization: Bearer {tokens.issue(user)}\r\nIdempotency-Key: first\r\nPurchase-Ticket: {ticket}\r\n"
            f"X-Forwarded-For: {address}\r\nContent-Type: application/json\r\nContent-Length: 14\r\n\r\n"
        )
        made.append(head.encode() + b'{"quantity":1}')
    return made


def fire(port: int, requests: list[bytes], connections: int, seconds: float) -> Shots:
    """Until the time is over or the requests are; answers still under way then are waited for and not counted."""
    shots, latencies = Shots(), list[float]()
    supply = iter(requests)
    poller = select.epoll()
    sockets: dict[int, socket.socket] = {}
    sent_at: dict[int, float] = {}
    rest: dict[int, bytes] = {}
    for _ in range(connections):
        each = socket.create_connection(("127.0.0.1", port), timeout=QUIET_S)
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
        ready = poller.poll(QUIET_S)
        now = time.perf_counter()
        if not ready:
            raise TimeoutError(f"no answer within {QUIET_S:.0f} s")
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
                shots.answers[content[9:12].decode()] += 1
                following = next(supply, None)
                if following is None:
                    over = now
                    continue
                sent_at[name] = now
                each.sendall(following)
    shots.seconds = min(now, over) - began
    shots.cpu_s = time.process_time() - cpu
    latencies.sort()
    for share in (50, 99):
        shots.latencies_ms[f"p{share}"] = 1000 * latencies[len(latencies) * share // 100] if latencies else 0.0
    for each in sockets.values():
        each.close()
    return shots


def _is_whole(content: bytes) -> bool:
    """The head, and as much as it says; these servers always say how much."""
    head_end = content.find(b"\r\n\r\n")
    if head_end < 0:
        return False
    at = content.lower().find(b"content-length:", 0, head_end)
    if at < 0:
        raise ValueError(f"an answer without a length: {content[:300]!r}")
    length = int(content[at + 15 : content.index(b"\r\n", at)])
    return len(content) >= head_end + 4 + length


def main() -> int:
    spec = Spec(**json.load(sys.stdin))
    shots = fire(spec.port, prepared(spec), spec.connections, spec.seconds)
    json.dump(
        {
            "seconds": shots.seconds,
            "cpu_s": shots.cpu_s,
            "answers": shots.answers,
            "latencies_ms": shots.latencies_ms,
        },
        sys.stdout,
    )
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
