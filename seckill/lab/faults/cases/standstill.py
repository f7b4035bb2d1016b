"""Faults that could stop the sale or lose records unnoticed: lost offsets, frozen lock holders, power loss."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from kafka import KafkaAdminClient, TopicPartition
from kafka.structs import OffsetAndMetadata

from seckill.config.kafka_clients import client_options
from seckill.lab.faults import power, settling
from seckill.lab.faults.case import CrowdPlan, Steps, case
from seckill.lab.faults.cases.crash_points import PROGRESS_MIN, wait_for_decisions
from seckill.lab.faults.fault_run import FaultRun
from seckill.lab.faults.scripted_buyers import call_api
from seckill.messaging.topics import INVENTORY_DECISIONS, ORDER_EVENTS, PURCHASE_REQUESTS
from seckill.stack.process_log import is_frozen
from seckill.stack.services import ROOT

DEADLINE_S = 6
FLOOD_THREADS = 4
HANG_S = 6.0
BAD_PARTITION = 3


@case(
    "41", "commit-lost",
    "the broker loses inventory's last offset commits, and then no request arrives for longer than the deadline",
)  # fmt: skip
def commit_lost(run: FaultRun) -> Steps:
    stack = run.stack
    stack.restart_with("gateway", SECKILL_PURCHASE_DEADLINE_S=str(DEADLINE_S))
    stack.send("stop", name="inventory")
    lost = _rewind_offsets(stack.broker)
    stack.send("start", name="inventory")
    stack.wait_until_up("gateway", "inventory")
    yield
    time.sleep(DEADLINE_S + 4)
    with run.buyer_log("commit-lost", run.side_sale) as log:
        first = run.buyer("after-the-silence", log).attempt()
        second = run.buyer("after-him", log).attempt()
    run.prove("commits lost", lost)
    run.prove("purchases accepted after the silence", first.status == second.status == 202)
    stack.restart_with("gateway")
    stack.wait_until_up("gateway")


def _rewind_offsets(broker: str) -> int:
    """Move inventory's offset back by one in every partition that it has read; in how many."""
    admin = KafkaAdminClient(**client_options(broker))
    try:
        offsets = admin.list_group_offsets(["inventory"])["inventory"]
        rewound = {
            TopicPartition(at.topic, at.partition): OffsetAndMetadata(committed.offset - 1, "", -1)
            for at, committed in offsets.items()
            if committed.offset > 0
        }
        admin.alter_group_offsets("inventory", rewound)
        return len(rewound)
    finally:
        admin.close()


@case(
    "42", "holder-frozen", "an inventory process freezes inside a transaction that has locked the stock",
    crowd=CrowdPlan(over_s=12),
)  # fmt: skip
def holder_frozen(run: FaultRun) -> Steps:
    stack, database = run.stack, run.stack.database
    holder = "inventory.1"
    stack.send("stop", name=holder)
    stack.send("start", name=holder, **{"with": {"SECKILL_FAULT": "inventory.before_commit:freeze"}})
    stack.wait_until(lambda: is_frozen(stack.pid(holder)), "a process to freeze inside its transaction")
    sessions = database.idle_writing_sessions()
    before = database.decided()
    stack.wait_until(lambda: not database.sessions_left(sessions), "Postgres to end its transaction", 60)
    decided = wait_for_decisions(run, "the other process to make progress", before=before)
    stack.resume(holder)
    yield
    run.prove("transactions held open by it", len(sessions))
    run.prove("decided while it was frozen", decided)
    run.prove("its late transactions refused", stack.log_of(holder).count("idle-in-transaction"))
    stack.restart_with("inventory")
    stack.wait_until_up("inventory")


@case(
    "43", "breaker-probe",
    "the broker has recovered, but a flood of bad requests could use up the probes of the circuit breaker",
    stops_brokers=True,
)  # fmt: skip
def breaker_probe(run: FaultRun) -> Steps:
    with _bad_requests(run) as statuses:
        with run.stack.frozen(run.stack.brokers.service):
            time.sleep(HANG_S)
        before = len(statuses)
        with run.buyer_log("breaker-probe", run.side_sale) as log:
            response = run.buyer("honest", log).buy_persistently()
        refused = len(statuses) - before
    yield
    run.prove("bad requests refused meanwhile", refused)
    run.prove("the honest buyer was accepted", response.status == 202)


@contextmanager
def _bad_requests(run: FaultRun) -> Iterator[list[int]]:
    """Requests without a ticket, as fast as they are refused; the list of their statuses."""
    url = run.stack.gateway
    response = call_api(url, "POST", "/sessions", {"user": "junk"}, {})
    headers = {"Authorization": f"Bearer {response.body['token']}"}
    path = f"/sales/{run.side_sale}/purchases"
    statuses: list[int] = []
    stopping = threading.Event()

    def flood(name: str) -> None:
        number = 0
        while not stopping.is_set():
            number += 1
            key = {"Idempotency-Key": f"{name}-{number}"}
            statuses.append(call_api(url, "POST", path, {"quantity": 1}, headers | key).status)

    threads = [threading.Thread(target=flood, args=(f"junk-{number}",)) for number in range(FLOOD_THREADS)]
    for thread in threads:
        thread.start()
    try:
        yield statuses
    finally:
        stopping.set()
        for thread in threads:
            thread.join()


@case(
    "44", "power-lost", "the broker's machine loses power, and with it everything that was never synced to disk",
    crowd=CrowdPlan(over_s=12), not_on_kafka="a hook in mqcore's process records what it syncs",
)  # fmt: skip
def power_lost(run: FaultRun) -> Steps:
    stack, database = run.stack, run.stack.database
    folder, journal = stack.folder / "mqcore", stack.folder / "synced"
    stack.send("stop", name="mqcore")
    durable = {path.stat().st_ino: path.stat().st_size for path in _files(folder)}
    paths = os.pathsep.join([str(Path(power.__path__[0])), str(ROOT)])
    stack.send("start", name="mqcore", **{"with": {"PYTHONPATH": paths, "POWER_JOURNAL": str(journal)}})
    stack.wait_until_up("mqcore")
    orders = database.orders()
    wait_for_decisions(run, "the sale to go on")
    stack.wait_until(lambda: database.orders() > orders, "orders to be placed")
    with stack.frozen("mqcore"):
        lost = _truncate_to_synced(folder, durable, journal)
        stack.send("kill", name="mqcore")
    yield
    run.prove("bytes that were never synced", lost)
    run.prove("syncs before", len(journal.read_text().splitlines()))
    run.record("partitions in which a group halted", database.halted_partitions())


def _files(folder: Path) -> list[Path]:
    return [path for path in folder.rglob("*") if path.is_file()]


def _truncate_to_synced(folder: Path, durable: dict[int, int], journal: Path) -> int:
    """Cut every file to its size at its last sync; the number of bytes lost."""
    sizes, lost = dict(durable), 0
    for line in journal.read_text().splitlines():
        inode, size = map(int, line.split())
        sizes[inode] = size
    for path in _files(folder):
        status = path.stat()
        synced = sizes.get(status.st_ino, 0)
        if status.st_size > synced and not path.name.startswith(".lock"):
            lost += status.st_size - synced
            os.truncate(path, synced)
    return lost


@case(
    "45", "partition-offline", "one partition of each topic is offline while the others go on",
    crowd=CrowdPlan(over_s=12), not_on_kafka="it takes its only log folder offline, and with it the whole broker",
)  # fmt: skip
def partition_offline(run: FaultRun) -> Steps:
    stack, database = run.stack, run.stack.database
    stack.send("stop", name="mqcore")
    topics = (PURCHASE_REQUESTS.name, INVENTORY_DECISIONS.name, ORDER_EVENTS.name)
    segments = [_make_unreadable(run, number, topic) for number in stack.brokers.numbers for topic in topics]
    stack.send("start", name="mqcore")
    stack.wait_until_up("mqcore")
    orders = database.orders()
    visible = ("AWAITING_PAYMENT", "PAID", "EXPIRED")
    shown = database.outcomes(*visible)
    decided = wait_for_decisions(run, "decisions in the other partitions", 90)
    stack.wait_until(lambda: database.orders() >= orders + PROGRESS_MIN, "their orders", 90)
    stack.wait_until(lambda: database.outcomes(*visible) > shown, "buyers to see their outcomes", 90)
    placed = database.orders() - orders
    stack.send("stop", name="mqcore")
    for path, content in segments:
        path.rmdir()
        path.write_bytes(content)
    stack.send("start", name="mqcore")
    stack.wait_until_up("mqcore")
    yield
    run.prove("partitions offline", len(topics))
    run.prove("decided meanwhile", decided)
    run.prove("orders placed meanwhile", placed)


def _make_unreadable(run: FaultRun, number: int, topic: str) -> tuple[Path, bytes]:
    """Replace the newest segment by a folder of the same name, so that the broker cannot open it; path and content."""
    path = max((run.stack.brokers.folder(number) / f"{topic}-{BAD_PARTITION}").glob("*.log"))
    content = path.read_bytes()
    path.unlink()
    path.mkdir()
    return path, content


@case(
    "46", "redis-hangs", "Redis accepts connections but answers nothing, while requests wait in the queue",
    crowd=CrowdPlan(over_s=8),
)  # fmt: skip
def redis_hangs(run: FaultRun) -> Steps:
    run.stack.send("stop", name="inventory")
    run.stack.wait_until(lambda: settling.in_flight(run.stack) >= PROGRESS_MIN, "requests in the queue")
    with run.stack.frozen("redis"):
        run.stack.send("start", name="inventory")
        decided = wait_for_decisions(run, "inventory to decide without Redis")
    yield
    run.prove("decided while Redis hung", decided)
    run.record("calls to Redis that were skipped", run.stack.count_in_logs("moment ago", "inventory"))
