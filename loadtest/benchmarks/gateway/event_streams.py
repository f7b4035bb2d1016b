"""Shell: a load generator that makes purchases, opens an event stream for each of them, and reads the events.

It has three steps: buy, open the streams, and hold them until it is told to end.
"""

from __future__ import annotations

import random
import select
import socket
import sys
import time
from dataclasses import dataclass, field

from loadtest.benchmarks.gateway.closed_loop import send_requests
from loadtest.benchmarks.gateway.http_load import (
    BUFFER,
    connect,
    get_request,
    json_body,
    prepare_purchases,
    random_address,
    read_spec,
    report,
    wait_for_permission,
)

CONNECTIONS = 256
BUY_SECONDS_MAX = 60.0
OPENING_MAX = 64
"""Streams whose first event is awaited at the same time."""
OPEN_SECONDS_MAX = 60.0


@dataclass(slots=True)
class StreamSpec:
    port: int
    sale: int
    secret: str
    users: str
    streams: int


@dataclass(slots=True)
class Streams:
    """`begun` are those that have sent their first event."""

    poller: select.epoll = field(default_factory=select.epoll)
    sockets: dict[int, socket.socket] = field(default_factory=dict)
    begun: set[int] = field(default_factory=set)
    event_count: int = 0

    def open(self, port: int, url: str, address: str) -> None:
        each = connect(port)
        each.sendall(get_request(port, url, X_Forwarded_For=address))
        self.sockets[each.fileno()] = each
        self.poller.register(each.fileno(), select.EPOLLIN)

    def read(self, wait_s: float) -> None:
        """What has arrived. A response that is not a stream ends the generator, because the figures would be wrong."""
        for descriptor, _ in self.poller.poll(wait_s, 256):
            received = self.sockets[descriptor].recv(BUFFER)
            if not received or (received.startswith(b"HTTP/1.1 ") and received[9:12] != b"200"):
                raise ConnectionError(f"a stream was refused or has ended: {received[:300]!r}")
            events = received.count(b"event: purchase")
            if events:
                self.begun.add(descriptor)
                self.event_count += events


def main() -> int:
    spec = StreamSpec(**read_spec())
    addresses = random.Random(spec.users)
    urls: list[str] = []
    purchases = prepare_purchases(spec.port, spec.sale, spec.secret, spec.users, spec.streams)
    send_requests(
        spec.port, [purchase.content for purchase in purchases], CONNECTIONS, BUY_SECONDS_MAX,
        on_accepted=lambda response: urls.append(json_body(response)["events_url"]),
    )  # fmt: skip
    report(accepted=len(urls))

    wait_for_permission()
    streams = Streams()
    deadline = time.monotonic() + OPEN_SECONDS_MAX
    for number, url in enumerate(urls):
        streams.open(spec.port, url, random_address(addresses))
        while number - len(streams.begun) >= OPENING_MAX and time.monotonic() < deadline:
            streams.read(1.0)
    while len(streams.begun) < len(urls) and time.monotonic() < deadline:
        streams.read(1.0)
    report(open=len(streams.begun))

    began, events_before = time.monotonic(), streams.event_count
    while not select.select([sys.stdin], [], [], 0)[0]:
        streams.read(0.1)
    seconds = time.monotonic() - began
    report(open=len(streams.sockets), events_s=(streams.event_count - events_before) / seconds)
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
