"""Shell: a load generator that opens many connections and, when told, sends a purchase on half of them at once.

It expects a stopped broker: as many purchases wait as the gateway lets wait, and the others are refused.
"""

from __future__ import annotations

import select
import sys
import time
from collections import Counter
from dataclasses import dataclass

from loadtest.benchmarks.gateway.http_load import (
    BUFFER,
    connect,
    exchange,
    get_request,
    prepare_purchases,
    read_spec,
    report,
    status_of,
    wait_for_permission,
)

REFUSALS_SECONDS_MAX = 2.0
"""A gateway gives up waiting after three seconds."""


@dataclass(slots=True)
class StallSpec:
    port: int
    sale: int
    secret: str
    users: str
    connections: int
    waiting: int  # how many purchases are expected to wait


def main() -> int:
    spec = StallSpec(**read_spec())
    purchases = prepare_purchases(spec.port, spec.sale, spec.secret, spec.users, spec.connections // 2)
    alive = get_request(spec.port, "/livez")
    connections = [connect(spec.port) for _ in range(spec.connections)]
    for each in connections:
        exchange(each, alive)  # so that the server has really accepted it
        each.settimeout(None)
    report(open=len(connections))

    wait_for_permission()
    poller = select.epoll()
    busy = {each.fileno(): each for each in connections[: len(purchases)]}
    for each, purchase in zip(busy.values(), purchases, strict=True):
        each.sendall(purchase.content)
        poller.register(each.fileno(), select.EPOLLIN)
    statuses: Counter[str] = Counter()
    deadline = time.monotonic() + REFUSALS_SECONDS_MAX
    while len(busy) > spec.waiting and time.monotonic() < deadline:
        for descriptor, _ in poller.poll(0.1):
            content = busy.pop(descriptor).recv(BUFFER)
            statuses[status_of(content)] += 1
            poller.unregister(descriptor)
    report(waiting=len(busy), statuses=statuses)

    sys.stdin.readline()
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
