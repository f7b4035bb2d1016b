"""Shell: a load generator in an open loop: purchases and status polls at fixed rates, however slow the answers are.

Buyers do not wait for one another. So a request that the server keeps waiting is late from the moment when it was due,
not from the moment when a connection was free to send it; otherwise a stalled server would look fast.
"""

from __future__ import annotations

import random
import select
import socket
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field

from loadtest.benchmarks.gateway.http_load import (
    BUFFER,
    connect,
    exchange,
    get_request,
    is_whole,
    json_body,
    percentiles_ms,
    prepare_purchases,
    read_spec,
    report,
    status_of,
)
from loadtest.benchmarks.gateway.schedule import Schedule

LEAD_IN_S = 1.0
"""Before the time that counts, because connections and caches are still cold."""
DRAIN_SECONDS_MAX = 10.0
"""How long answers are awaited after the last request was due."""
EVENTS_MAX = 64
"""Responses handled between two looks at the clock."""
PURCHASES, POLLS = "purchases", "polls"


@dataclass(slots=True)
class OpenLoopSpec:
    port: int
    sale: int
    secret: str
    users: str
    seconds: float
    purchases_s: int
    polls_s: int
    purchase_connections: int
    poll_connections: int


@dataclass(slots=True, eq=False)
class Stream:
    """The requests of one kind, and the connections that are free to send them."""

    name: str
    schedule: Schedule
    good_status: str
    next_request: Callable[[], tuple[bytes, str]]  # the request and its buyer's token
    idle: list[socket.socket]
    idle_since: float = 0.0
    statuses: Counter[str] = field(default_factory=Counter)
    lags: list[float] = field(default_factory=list)  # how late requests were sent although a connection was free


@dataclass(slots=True)
class Exchange:
    stream: Stream
    connection: socket.socket
    due_at: float
    token: str
    content: bytes = b""


class OpenLoop:
    """Times are seconds since the start."""

    def __init__(self, spec: OpenLoopSpec) -> None:
        self._spec = spec
        self._poller = select.epoll()
        self._under_way: dict[int, Exchange] = {}
        self._accepted: list[tuple[str, str]] = []  # status addresses and tokens
        self._chance = random.Random(spec.users)
        count = int(spec.purchases_s * (LEAD_IN_S + spec.seconds)) + 1
        self._supply = iter(prepare_purchases(spec.port, spec.sale, spec.secret, spec.users, count))
        self.streams = [
            self._stream(PURCHASES, spec.purchases_s, "202", self._next_purchase, spec.purchase_connections),
            self._stream(POLLS, spec.polls_s, "200", self._next_poll, spec.poll_connections),
        ]

    def _stream(
        self, name: str, rate: int, good_status: str, next_request: Callable[[], tuple[bytes, str]], connections: int
    ) -> Stream:
        schedule = Schedule(rate, self._spec.seconds, LEAD_IN_S)
        idle = [connect(self._spec.port) for _ in range(connections if rate else 0)]
        for connection in idle:
            self._poller.register(connection.fileno(), select.EPOLLIN)
        return Stream(name, schedule, good_status, next_request, idle)

    def run(self) -> float:
        """How many seconds it took."""
        began = time.perf_counter()
        ends_at = LEAD_IN_S + self._spec.seconds + DRAIN_SECONDS_MAX
        now = 0.0
        while now < ends_at and not all(stream.schedule.is_done for stream in self.streams):
            for stream in self.streams:
                self._send_due(stream, began)
            now = time.perf_counter() - began
            wait_s = min(stream.schedule.wait_s(now) if stream.idle else 1.0 for stream in self.streams)
            for descriptor, _ in self._poller.poll(wait_s, EVENTS_MAX):
                self._receive(descriptor, began)
            now = time.perf_counter() - began
        return now

    def buy_once(self) -> None:
        """So that the first polls have a purchase to ask for."""
        request, token = self._next_purchase()
        with connect(self._spec.port) as connection:
            response = exchange(connection, request)
        if status_of(response) != "202":
            raise ValueError(f"the first purchase was not accepted: {response[:300]!r}")
        self._accepted.append((json_body(response)["status_url"], token))

    def close(self) -> None:
        for stream in self.streams:
            for connection in stream.idle:
                connection.close()
        for under_way in self._under_way.values():
            under_way.connection.close()
        self._poller.close()

    def _next_purchase(self) -> tuple[bytes, str]:
        return next(self._supply)

    def _next_poll(self) -> tuple[bytes, str]:
        url, token = self._chance.choice(self._accepted)
        return get_request(self._spec.port, url, Authorization=f"Bearer {token}"), token

    def _send_due(self, stream: Stream, began: float) -> None:
        while stream.idle:
            now = time.perf_counter() - began
            if not stream.schedule.is_due(now):
                return
            due_at = stream.schedule.start()
            stream.lags.append(now - max(due_at, stream.idle_since))
            connection = stream.idle.pop()
            request, token = stream.next_request()
            self._under_way[connection.fileno()] = Exchange(stream, connection, due_at, token)
            connection.sendall(request)

    def _receive(self, descriptor: int, began: float) -> None:
        under_way = self._under_way.get(descriptor)  # None: the server did something to an idle connection
        received = under_way.connection.recv(BUFFER) if under_way is not None else b""
        if under_way is None or not received:
            raise ConnectionError("the server closed a connection")
        under_way.content += received
        if not is_whole(under_way.content):
            return
        now = time.perf_counter() - began
        stream, status = under_way.stream, status_of(under_way.content)
        del self._under_way[descriptor]
        if not stream.idle:
            stream.idle_since = now
        stream.idle.append(under_way.connection)
        stream.statuses[status] += 1
        stream.schedule.finish(under_way.due_at, now, is_good=status == stream.good_status)
        if stream.name == PURCHASES and status == "202":
            self._accepted.append((json_body(under_way.content)["status_url"], under_way.token))


def main() -> int:
    spec = OpenLoopSpec(**read_spec())
    load = OpenLoop(spec)
    load.buy_once()
    cpu = time.process_time()
    seconds = load.run()
    facts = {
        stream.name: {
            "due_s": stream.schedule.rate,
            "reached_s": stream.schedule.reached,
            "share_good": stream.schedule.share_good,
            "latencies_ms": percentiles_ms(stream.schedule.latencies_until(seconds)),
            "statuses": stream.statuses,
        }
        for stream in load.streams
    }
    lags = [lag for stream in load.streams for lag in stream.lags]
    report(
        streams=facts, seconds=seconds, cores=(time.process_time() - cpu) / seconds,
        lag_p99_ms=percentiles_ms(lags)["p99"],
    )  # fmt: skip
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
