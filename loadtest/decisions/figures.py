"""Each figure: what is laid ready, what is run, and what is counted until when. A sample is one repetition of one."""

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
from loadtest.decisions.row_lock import TABLES
from loadtest.decisions.world import PATIENCE_S, TABLE_LOOK_S, World, until
from loadtest.gateway.firing import fire
from seckill.topics import INVENTORY_DECISIONS, PURCHASE_REQUESTS

CONSUMERS = (("consume", "inventory"), ("consume", "inventory"))
RELAY = ("relay", "inventory")
FAR_MS = 10**15
REST_S = 2.0
"""What has not moved for so long is where it will stay."""
PEER_PROCESSES = 2
PEER_THREADS = (2, 8, 24)
"""Of each process; the best of them counts."""
PEER_WEB = "loadtest.decisions.row_lock_view:application"
PEER_CONNECTIONS = (8, 24, 48)
"""To its server; the best of them counts."""


@dataclass(frozen=True, slots=True)
class Sample:
    count: int
    seconds: float
    cpu_s: float = 0.0
    note: str = ""

    @property
    def rate(self) -> float:
        return self.count / self.seconds


# ── ours ─────────────────────────────────────────────────────────────────────────────────────────


def decide(world: World, requests: int, units: int, *, consumers: int = 2) -> Sample:
    """A backlog that has grown while inventory was switched off: from its first commit to the last. So nobody joins or
    leaves the group while it is measured."""
    sale, before, claims = world.create_sale(units), _decided(world), _claims(world, "inventory")
    world.change("INSERT INTO streams_switch VALUES ('inventory', now())")
    with world.processes(*CONSUMERS[:consumers]) as processes:
        fill(world, sale, requests)
        until(lambda: _claims(world, "inventory") >= claims + PURCHASE_REQUESTS.partitions, "inventory to be assigned")
        _until_at_rest(lambda: _claims(world, "inventory"))
        world.change("DELETE FROM streams_switch")
        return _timed(world, processes, before, requests, lambda: _decided(world))


def _until_at_rest(number: Callable[[], int]) -> None:
    seen = -1
    while seen != (seen := number()):
        time.sleep(REST_S)


def until_the_last_one_knows(world: World, requests: int) -> Sample:
    """A backlog after sold out, until the last of its buyers can be told: inventory, relay, outcomes."""
    with _downstream(world, "gateway.outcomes", 1):
        return _until_all(world, requests, 1, lambda: _known(world), "the last outcome")


def place_orders(world: World, requests: int) -> Sample:
    """Everybody gets a unit: from the first decision until the last order stands."""
    with _downstream(world, "orders", 2):
        return _until_all(world, requests, requests, lambda: _ordered(world), "the last order")


@contextmanager
def _downstream(world: World, group: str, consumers: int) -> Iterator[None]:
    """The relay and who reads what it publishes, at work and with nothing left of earlier figures."""
    claims = _claims(world, group)
    with world.processes(RELAY, *[("consume", group)] * consumers):
        until(lambda: _unpublished(world) == 0, "an empty outbox", TABLE_LOOK_S)
        until(lambda: _claims(world, group) >= claims + INVENTORY_DECISIONS.partitions, f"{group} to be assigned")
        _until_at_rest(lambda: _read(world, group))
        yield


def _until_all(world: World, requests: int, units: int, count: Callable[[], int], what: str) -> Sample:
    fill(world, world.create_sale(units), requests)
    before, decided = count(), _decided(world)
    with world.processes(*CONSUMERS):
        until(lambda: _decided(world) > decided, "the first decision")
        began = time.perf_counter()
        until(lambda: count() >= before + requests, what, TABLE_LOOK_S)
        return Sample(requests, time.perf_counter() - began)


def relay(world: World, rows: int) -> Sample:
    """Rows as inventory writes them, laid into the outbox before the relay starts; until they are gone."""
    until(lambda: _unpublished(world) == 0 or _relayed(world), "an empty outbox")
    fill(world, world.create_sale(1), rows)
    before = _decided(world)
    with world.processes(*CONSUMERS):
        until(lambda: _decided(world) >= before + rows, "the decisions")
    with world.processes(RELAY) as processes:
        until(lambda: _unpublished(world) < rows, "the relay to begin")
        left, began, cpu = _unpublished(world), time.perf_counter(), world.cpu_s(*processes)
        until(lambda: _unpublished(world) == 0, "an empty outbox", TABLE_LOOK_S)
        return Sample(left, time.perf_counter() - began, world.cpu_s(*processes) - cpu)


def _relayed(world: World) -> bool:
    """What earlier figures have left is published first."""
    with world.processes(RELAY):
        until(lambda: _unpublished(world) == 0, "an empty outbox")
    return True


def _timed(
    world: World, processes: list[subprocess.Popen[bytes]], before: int, requests: int, count: Callable[[], int]
) -> Sample:
    until(lambda: count() > before, "the first commit")
    done, began, cpu = count() - before, time.perf_counter(), world.cpu_s(*processes)
    ended = until(lambda: count() >= before + requests, "the last commit")
    return Sample(requests - done, ended - began, world.cpu_s(*processes) - cpu)


def fill(world: World, sale: int, requests: int) -> None:
    producer = KafkaProducer(bootstrap_servers=world.broker.address, acks="all", linger_ms=50, batch_size=256 * 1024)
    now_ms = time.time_ns() // 1_000_000
    mark = uuid4().hex[:6]
    for number in range(requests):
        user = f"user-{mark}-{number}"
        request = PurchaseRequested(uuid4(), user, sale, "phone", 1, now_ms, FAR_MS)
        producer.send(PURCHASE_REQUESTS.name, key=user.encode(), value=request.envelope().encode())
    producer.flush()
    producer.close()


def _decided(world: World) -> int:
    """By the offsets, which are rows of the same transactions: nothing is counted that has not been committed."""
    return _read(world, "inventory")


def _read(world: World, group: str) -> int:
    return _number(world, f"SELECT coalesce(sum(next_offset), 0) FROM streams_offset WHERE consumer_group = '{group}'")


def _claims(world: World, group: str) -> int:
    return _number(world, f"SELECT coalesce(sum(epoch), 0) FROM streams_offset WHERE consumer_group = '{group}'")


def _known(world: World) -> int:
    return _number(world, "SELECT count(*) FROM gateway_outcome")


def _ordered(world: World) -> int:
    return _number(world, "SELECT count(*) FROM orders_order")


def _unpublished(world: World) -> int:
    return _number(world, "SELECT count(*) FROM streams_outbox WHERE writer = 'inventory'")


def _number(world: World, statement: str) -> int:
    return int(world.rows(statement)[0][0])


# ── the peer ─────────────────────────────────────────────────────────────────────────────────────


def row_lock(world: World, requests: int, units: int, *, keep_refusals: bool) -> Sample:
    """The same crowd before a row lock, with as many threads as serve it best."""
    each = requests // len(PEER_THREADS) // PEER_PROCESSES
    samples = [_crowd(world, threads, each, units // len(PEER_THREADS), keep_refusals) for threads in PEER_THREADS]
    return max(samples, key=lambda sample: sample.rate)


def row_lock_web(world: World, requests: int, units: int, *, keep_refusals: bool) -> Sample:
    """The same function in a Django view, as many connections as serve it best."""
    each, samples = requests // len(PEER_CONNECTIONS), []
    with world.web(PEER_WEB, workers=PEER_PROCESSES, threads=32) as port:
        for connections in PEER_CONNECTIONS:
            address = f"/{_new_stock(world, units // len(PEER_CONNECTIONS))}/{'keep' if keep_refusals else 'forget'}"
            crowd = [
                f"POST {address}/user-{number} HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Length: 0\r\n\r\n".encode()
                for number in range(each)
            ]
            shots = fire(port, crowd, connections, seconds=PATIENCE_S)
            served = shots.answers["200"]
            if served < each - connections:
                raise RuntimeError(f"the row lock over HTTP answered {dict(shots.answers)}")
            samples.append(Sample(served, shots.seconds, note=f"{PEER_PROCESSES} workers, {connections} connections"))
    return max(samples, key=lambda sample: sample.rate)


def _new_stock(world: World, units: int) -> int:
    with psycopg.connect(world.database, autocommit=True) as connection:
        connection.execute(TABLES)
        row: Any = connection.execute(
            "INSERT INTO peer_stock (available) VALUES (%s) RETURNING id", [max(1, units)]
        ).fetchone()
    return int(row[0])


def _crowd(world: World, threads: int, each: int, units: int, keep_refusals: bool) -> Sample:
    stock = _new_stock(world, units)
    keep = "keep" if keep_refusals else "forget"
    command = [sys.executable, "-m", "loadtest.decisions.row_lock", world.database, str(threads)]
    processes = [
        subprocess.Popen(
            [*command, str(number * each), str(each), str(stock), keep], stdin=subprocess.PIPE, stdout=subprocess.PIPE
        )
        for number in range(PEER_PROCESSES)
    ]
    for process in processes:
        assert process.stdout is not None
        process.stdout.readline()
    for process in processes:
        assert process.stdin is not None
        process.stdin.write(b"go\n")
        process.stdin.flush()
    seconds = max(float(process.communicate()[0]) for process in processes)
    return Sample(each * PEER_PROCESSES, seconds, note=f"{PEER_PROCESSES} × {threads} threads")
