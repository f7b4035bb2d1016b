"""The figures: what is prepared, what runs, and what is counted until when. A sample is one repetition of a figure."""

from __future__ import annotations

import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any
from uuid import uuid4

import psycopg
from kafka import KafkaProducer

from gateway.events import PurchaseRequested
from loadtest.benchmarks.decisions.row_lock import TABLES
from loadtest.benchmarks.decisions.servers import TABLE_POLL_S, WAIT_SECONDS_MAX, BenchmarkServers, until
from loadtest.benchmarks.gateway.closed_loop import send_requests
from seckill.config.kafka_clients import client_options
from seckill.lab import damage
from seckill.messaging.topics import INVENTORY_DECISIONS, PURCHASE_REQUESTS

CONSUMERS = (("consume", "inventory"), ("consume", "inventory"))
RELAY = ("relay", "inventory")
DEADLINE_MS = 10**15
STABLE_S = 2.0
"""A number that has not changed for this long counts as final."""
ROW_LOCK_PROCESSES = 2
ROW_LOCK_THREADS = (2, 8, 24)
"""Of each process; the best of them counts."""
ROW_LOCK_WEB = "loadtest.benchmarks.decisions.row_lock_view:application"
ROW_LOCK_CONNECTIONS = (8, 24, 48)
"""To its web server; the best of them counts."""


@dataclass(frozen=True, slots=True)
class Sample:
    count: int
    seconds: float
    cpu_s: float = 0.0
    note: str = ""

    @property
    def rate(self) -> float:
        return self.count / self.seconds


# ── this project ─────────────────────────────────────────────────────────────────────────────────


def decide(servers: BenchmarkServers, requests: int, units: int, *, consumers: int = 2) -> Sample:
    """Decide a backlog, from the first commit to the last. Inventory is switched off while it grows, so no consumer
    joins or leaves the group during the measurement."""
    sale, before, claims = servers.create_sale(units), _decided(servers), _claims(servers, "inventory")
    damage.switch_group(servers.database, "inventory", on=False)
    with servers.services(*CONSUMERS[:consumers]) as processes:
        send_to_topic(servers, sale, requests)
        assigned = claims + PURCHASE_REQUESTS.partitions
        until(lambda: _claims(servers, "inventory") >= assigned, "the partitions to be assigned")
        _wait_until_stable(lambda: _claims(servers, "inventory"))
        damage.switch_group(servers.database, "inventory", on=True)
        return _timed(servers, processes, before, requests, lambda: _decided(servers))


def _wait_until_stable(number: Callable[[], int]) -> None:
    last = -1
    while last != (last := number()):
        time.sleep(STABLE_S)


def until_last_outcome(servers: BenchmarkServers, requests: int) -> Sample:
    """A backlog after sold out, until the last buyer can see an outcome: inventory, relay, projection."""
    with _downstream(servers, "gateway.outcomes", 1):
        return _until_all(servers, requests, 1, servers.database.outcomes, "the last outcome")


def place_orders(servers: BenchmarkServers, requests: int) -> Sample:
    """Every request gets a unit: from the first decision until the last order is placed."""
    with _downstream(servers, "orders", 2):
        return _until_all(servers, requests, requests, servers.database.orders, "the last order")


@contextmanager
def _downstream(servers: BenchmarkServers, group: str, consumers: int) -> Iterator[None]:
    """Run the relay and this group, after they have finished the work of earlier figures."""
    claims = _claims(servers, group)
    with servers.services(RELAY, *[("consume", group)] * consumers):
        until(lambda: _unpublished(servers) == 0, "an empty outbox", TABLE_POLL_S)
        assigned = claims + INVENTORY_DECISIONS.partitions
        until(lambda: _claims(servers, group) >= assigned, f"{group}'s partitions to be assigned")
        _wait_until_stable(lambda: servers.database.records_read(group))
        yield


def _until_all(servers: BenchmarkServers, requests: int, units: int, count: Callable[[], int], what: str) -> Sample:
    send_to_topic(servers, servers.create_sale(units), requests)
    before, decided = count(), _decided(servers)
    with servers.services(*CONSUMERS):
        until(lambda: _decided(servers) > decided, "the first decision")
        began = time.perf_counter()
        until(lambda: count() >= before + requests, what, TABLE_POLL_S)
        return Sample(requests, time.perf_counter() - began)


def relay(servers: BenchmarkServers, rows: int) -> Sample:
    """Publish an outbox that inventory has filled before the relay starts, until it is empty."""
    _empty_outbox(servers)
    send_to_topic(servers, servers.create_sale(1), rows)
    before = _decided(servers)
    with servers.services(*CONSUMERS):
        until(lambda: _decided(servers) >= before + rows, "the decisions")
    with servers.services(RELAY) as processes:
        until(lambda: _unpublished(servers) < rows, "the relay to begin")
        remaining, began, cpu_s = _unpublished(servers), time.perf_counter(), servers.cpu_s(*processes)
        until(lambda: _unpublished(servers) == 0, "an empty outbox", TABLE_POLL_S)
        return Sample(remaining, time.perf_counter() - began, servers.cpu_s(*processes) - cpu_s)


def _empty_outbox(servers: BenchmarkServers) -> None:
    """Publish what earlier figures have left."""
    if _unpublished(servers):
        with servers.services(RELAY):
            until(lambda: _unpublished(servers) == 0, "an empty outbox", TABLE_POLL_S)


def _timed(
    servers: BenchmarkServers,
    processes: list[subprocess.Popen[bytes]],
    before: int,
    requests: int,
    count: Callable[[], int],
) -> Sample:
    until(lambda: count() > before, "the first commit")
    done, began, cpu_s = count() - before, time.perf_counter(), servers.cpu_s(*processes)
    ended = until(lambda: count() >= before + requests, "the last commit")
    return Sample(requests - done, ended - began, servers.cpu_s(*processes) - cpu_s)


def send_to_topic(servers: BenchmarkServers, sale: int, requests: int) -> None:
    producer = KafkaProducer(**client_options(servers.broker.address), acks="all", linger_ms=50, batch_size=256 * 1024)
    now_ms = time.time_ns() // 1_000_000
    prefix = uuid4().hex[:6]
    for number in range(requests):
        user = f"user-{prefix}-{number}"
        request = PurchaseRequested(uuid4(), user, sale, "phone", 1, now_ms, DEADLINE_MS)
        producer.send(PURCHASE_REQUESTS.name, key=user.encode(), value=request.envelope().encode())
    producer.flush()
    producer.close()


def _decided(servers: BenchmarkServers) -> int:
    return servers.database.records_read("inventory")


def _claims(servers: BenchmarkServers, group: str) -> int:
    return sum(servers.database.claims(group).values())


def _unpublished(servers: BenchmarkServers) -> int:
    return servers.database.unpublished("inventory")


# ── the row lock ─────────────────────────────────────────────────────────────────────────────────


def row_lock(servers: BenchmarkServers, requests: int, units: int, *, keep_refusals: bool) -> Sample:
    """The same requests with a row lock, with the number of threads that serves it best."""
    each = requests // len(ROW_LOCK_THREADS) // ROW_LOCK_PROCESSES
    samples = [
        _buy_in_processes(servers, threads, each, units // len(ROW_LOCK_THREADS), keep_refusals)
        for threads in ROW_LOCK_THREADS
    ]
    return max(samples, key=lambda sample: sample.rate)


def row_lock_web(servers: BenchmarkServers, requests: int, units: int, *, keep_refusals: bool) -> Sample:
    """The same function in a Django view, with the number of connections that serves it best."""
    each, samples = requests // len(ROW_LOCK_CONNECTIONS), []
    options = ("--blocking-threads", "32")
    with servers.web_server("wsgi", ROW_LOCK_WEB, *options, workers=ROW_LOCK_PROCESSES) as (port, _):
        for connections in ROW_LOCK_CONNECTIONS:
            stock = _create_stock(servers, units // len(ROW_LOCK_CONNECTIONS))
            path = f"/{stock}/{'keep' if keep_refusals else 'forget'}"
            prepared = [
                f"POST {path}/user-{number} HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Length: 0\r\n\r\n".encode()
                for number in range(each)
            ]
            result = send_requests(port, prepared, connections, seconds=WAIT_SECONDS_MAX)
            served = result.statuses["200"]
            if served < each - connections:
                raise RuntimeError(f"the row lock over HTTP answered {dict(result.statuses)}")
            note = f"{ROW_LOCK_PROCESSES} workers, {connections} connections"
            samples.append(Sample(served, result.seconds, note=note))
    return max(samples, key=lambda sample: sample.rate)


def _create_stock(servers: BenchmarkServers, units: int) -> int:
    with psycopg.connect(servers.database_url, autocommit=True) as connection:
        connection.execute(TABLES)
        row: Any = connection.execute(
            "INSERT INTO peer_stock (available) VALUES (%s) RETURNING id", [max(1, units)]
        ).fetchone()
    return int(row[0])


def _buy_in_processes(servers: BenchmarkServers, threads: int, each: int, units: int, keep_refusals: bool) -> Sample:
    stock = _create_stock(servers, units)
    keep = "keep" if keep_refusals else "forget"
    command = [sys.executable, "-m", "loadtest.benchmarks.decisions.row_lock", servers.database_url, str(threads)]
    processes = [
        subprocess.Popen(
            [*command, str(number * each), str(each), str(stock), keep], stdin=subprocess.PIPE, stdout=subprocess.PIPE
        )
        for number in range(ROW_LOCK_PROCESSES)
    ]
    for process in processes:
        assert process.stdout is not None
        process.stdout.readline()  # it is connected and ready
    for process in processes:
        assert process.stdin is not None
        process.stdin.write(b"go\n")
        process.stdin.flush()
    seconds = max(float(process.communicate()[0]) for process in processes)
    return Sample(each * ROW_LOCK_PROCESSES, seconds, note=f"{ROW_LOCK_PROCESSES} × {threads} threads")
