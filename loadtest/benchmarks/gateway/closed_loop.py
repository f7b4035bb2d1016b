"""Shell: a load generator in a closed loop: each connection sends its next request as soon as a response arrives.

It finds the most that a server can do. Latencies under such a load say little, because a slow server is asked less
often; `open_loop` measures those.
"""

from __future__ import annotations

import select
import socket
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field

from loadtest.benchmarks.gateway.http_load import (
    BUFFER,
    SILENCE_SECONDS_MAX,
    connect,
    is_whole,
    percentiles_ms,
    prepare_purchases,
    read_spec,
    report,
    status_of,
    wait_for_permission,
)


@dataclass(slots=True)
class ClosedLoopSpec:
    port: int
    sale: int
    secret: str
    users: str  # the prefix of their names
    requests: int
    connections: int
    seconds: float


@dataclass(slots=True)
class ClosedLoopResult:
    seconds: float = 0.0
    cpu_s: float = 0.0
    statuses: Counter[str] = field(default_factory=Counter)
    latencies_ms: dict[str, float] = field(default_factory=dict)
    accepted_late: int = 0  # after the end


def send_requests(
    port: int, requests: list[bytes], connections: int, seconds: float,
    on_accepted: Callable[[bytes], None] = lambda response: None,
) -> ClosedLoopResult:  # fmt: skip
    """Until the time or the requests run out. Responses that arrive later count for no rate and no latency."""
    result, latencies = ClosedLoopResult(), list[float]()
    supply = iter(requests)
    poller = select.epoll()
    sockets: dict[int, socket.socket] = {}
    sent_at: dict[int, float] = {}
    rest: dict[int, bytes] = {}
    for _ in range(min(connections, len(requests))):
        each = connect(port)
        sockets[each.fileno()], rest[each.fileno()] = each, b""
        poller.register(each.fileno(), select.EPOLLIN)
    cpu, began = time.process_time(), time.perf_counter()
    over = began + seconds
    for name, each in sockets.items():
        each.sendall(next(supply))
        sent_at[name] = began
    now, is_over = began, False
    while sent_at:
        ready = poller.poll(SILENCE_SECONDS_MAX)
        now = time.perf_counter()
        if not ready:
            raise TimeoutError(f"no response within {SILENCE_SECONDS_MAX:.0f} s")
        for name, _ in ready:
            each = sockets[name]
            received = each.recv(BUFFER)
            if not received:
                raise ConnectionError("the server closed a connection")
            content = rest[name] + received
            if not is_whole(content):
                rest[name] = content
                continue
            rest[name] = b""
            began_at = sent_at.pop(name)
            status = status_of(content)
            if now >= over:
                is_over = True
                result.accepted_late += status == "202"
                continue
            latencies.append(now - began_at)
            result.statuses[status] += 1
            if status == "202":
                on_accepted(content)
            following = next(supply, None)
            if following is not None:
                sent_at[name] = now
                each.sendall(following)
    result.seconds = (over if is_over else now) - began
    result.cpu_s = time.process_time() - cpu
    result.latencies_ms = percentiles_ms(latencies)
    for each in sockets.values():
        each.close()
    poller.close()
    return result


def main() -> int:
    spec = ClosedLoopSpec(**read_spec())
    purchases = prepare_purchases(spec.port, spec.sale, spec.secret, spec.users, spec.requests)
    requests = [purchase.content for purchase in purchases]
    report(ready=True)
    wait_for_permission()
    result = send_requests(spec.port, requests, spec.connections, spec.seconds)
    report(
        seconds=result.seconds, cpu_s=result.cpu_s, statuses=result.statuses, latencies_ms=result.latencies_ms,
        accepted_late=result.accepted_late,
    )  # fmt: skip
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
