"""What could make the sale stand still, or lose records unseen: lost commits, frozen holders, power, one partition."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from kafka import KafkaAdminClient, TopicPartition
from kafka.structs import OffsetAndMetadata

from seckill.faults import power, progress
from seckill.faults.case import Acts, Rush, case
from seckill.faults.cases.inventory import is_stopped
from seckill.faults.crowd import Buyer, call
from seckill.faults.world import World
from seckill.stack.services import ROOT
from seckill.topics import INVENTORY_DECISIONS, ORDER_EVENTS, PURCHASE_REQUESTS

DEADLINE_S = 6
HANDFUL = 5
FLOODS = 4
STALL_S = 6.0
BAD_PARTITION = 3


@case("41", "commit-lost", "the broker forgets how far inventory is, and then it is quiet for longer than the deadline")
def commit_lost(world: World) -> Acts:
    world.restart_with("gateway", SECKILL_PURCHASE_DEADLINE_S=str(DEADLINE_S))
    world.word("stop", name="inventory")
    lost = _rewind(world.broker)
    world.word("start", name="inventory")
    world.wait_until(lambda: world.is_up("gateway", "inventory"), "gateway and inventory to be up")
    yield
    time.sleep(DEADLINE_S + 4)
    with world.book("commit-lost", world.side_sale) as book:
        told = Buyer(world.gateway, "after-the-silence", book.sale, book).ask()
        again = Buyer(world.gateway, "after-him", book.sale, book).ask()
    world.proves("commits lost", lost)
    world.proves("purchases accepted after the silence", (told.status == 202) + (again.status == 202) == 2)
    world.restart_with("gateway")
    world.wait_until(lambda: world.is_up("gateway"), "the gateway to be up")


def _rewind(broker: str) -> int:
    """In every partition that was read; how many."""
    admin = KafkaAdminClient(bootstrap_servers=broker)
    try:
        known = admin.list_group_offsets(["inventory"])["inventory"]
        back = {
            TopicPartition(at.topic, at.partition): OffsetAndMetadata(found.offset - 1, "", -1)
            for at, found in known.items()
            if found.offset > 0
        }
        admin.alter_group_offsets("inventory", back)
        return len(back)
    finally:
        admin.close()


@case(
    "42", "holder-frozen", "an inventory process stops in the middle of a transaction, with the stock locked",
    rush=Rush(over_s=12),
)  # fmt: skip
def holder_frozen(world: World) -> Acts:
    sleeper = "inventory.1"
    world.word("stop", name=sleeper)
    world.word("start", name=sleeper, **{"with": {"SECKILL_FAULT": "inventory.before_commit:freeze"}})
    world.wait_until(lambda: is_stopped(world.pid(sleeper)), "one to stop in the middle of its transaction")
    held = world.count("pg_stat_activity WHERE state = 'idle in transaction' AND backend_xid IS NOT NULL")
    before = _decided(world)
    world.wait_until(lambda: _decided(world) >= before + HANDFUL, "the other one to get through", 60)
    decided = _decided(world) - before
    world.wake(sleeper)
    yield
    refused = world.log_of(sleeper).count("idle-in-transaction")
    world.proves("transactions held open by it", held)
    world.proves("decided while it slept", decided)
    world.proves("its late transactions refused", refused)
    world.restart_with("inventory")
    world.wait_until(lambda: world.is_up("inventory"), "inventory to be up")


@case("43", "breaker-probe", "the broker is well again, and almost all calls are refused for another reason")
def breaker_probe(world: World) -> Acts:
    with _junk(world) as junk:
        with world.frozen("mqcore"):
            time.sleep(STALL_S)
        sent = len(junk)
        with world.book("breaker-probe", world.side_sale) as book:
            told = Buyer(world.gateway, "honest", book.sale, book).insist()
        sent = len(junk) - sent
    yield
    world.proves("calls refused for another reason meanwhile", sent)
    world.proves("the honest one was accepted", told.status == 202)


@contextmanager
def _junk(world: World) -> Iterator[list[int]]:
    """Calls without a ticket, as fast as they are answered; their statuses."""
    told = call(world.gateway, "POST", "/sessions", {"user": "junk"}, {})
    headers = {"Authorization": f"Bearer {told.body['token']}"}
    path, statuses, over = f"/sales/{world.side_sale}/purchases", [], threading.Event()

    def flood(name: str) -> None:
        number = 0
        while not over.is_set():
            number += 1
            key = {"Idempotency-Key": f"{name}-{number}"}
            statuses.append(call(world.gateway, "POST", path, {"quantity": 1}, headers | key).status)

    threads = [threading.Thread(target=flood, args=(f"junk-{number}",)) for number in range(FLOODS)]
    for thread in threads:
        thread.start()
    try:
        yield statuses
    finally:
        over.set()
        for thread in threads:
            thread.join()


@case(
    "44", "power-lost", "the broker's machine loses its power: all that was never synced is gone", rush=Rush(over_s=12)
)
def power_lost(world: World) -> Acts:
    folder, journal = world.folder / "mqcore", world.folder / "synced"
    world.word("stop", name="mqcore")
    durable = {path.stat().st_ino: path.stat().st_size for path in _files(folder)}
    paths = os.pathsep.join([str(Path(power.__path__[0])), str(ROOT)])
    world.word("start", name="mqcore", **{"with": {"PYTHONPATH": paths, "POWER_JOURNAL": str(journal)}})
    world.wait_until(lambda: world.is_up("mqcore"), "the broker to be up")
    before, placed = _decided(world), world.count("orders_order")
    world.wait_until(lambda: _decided(world) >= before + HANDFUL, "the sale to go on")
    world.wait_until(lambda: world.count("orders_order") > placed, "orders to be placed")
    with world.frozen("mqcore"):
        lost = _cut(folder, durable, journal)
        world.word("kill", name="mqcore")
    yield
    world.proves("bytes that were never synced", lost)
    world.proves("syncs before", len(journal.read_text().splitlines()))
    world.tells("partitions in which a group halted", world.count("streams_offset WHERE halted <> ''"))


def _files(folder: Path) -> list[Path]:
    return [path for path in folder.rglob("*") if path.is_file()]


def _cut(folder: Path, durable: dict[int, int], journal: Path) -> int:
    """Every file ends where it was synced last; how many bytes went."""
    known, lost = dict(durable), 0
    for line in journal.read_text().splitlines():
        inode, size = map(int, line.split())
        known[inode] = size
    for path in _files(folder):
        status = path.stat()
        left = known.get(status.st_ino, 0)
        if status.st_size > left and not path.name.startswith(".lock"):
            lost += status.st_size - left
            os.truncate(path, left)
    return lost


@case("45", "partition-offline", "one partition of each topic is offline; the others go on", rush=Rush(over_s=12))
def partition_offline(world: World) -> Acts:
    world.word("stop", name="mqcore")
    kept = [_take_away(world, topic.name) for topic in (PURCHASE_REQUESTS, INVENTORY_DECISIONS, ORDER_EVENTS)]
    world.word("start", name="mqcore")
    world.wait_until(lambda: world.is_up("mqcore"), "the broker to be up")
    decided, placed = _decided(world), world.count("orders_order")
    told = "gateway_outcome WHERE state IN ('AWAITING_PAYMENT', 'PAID', 'EXPIRED')"
    shown = world.count(told)
    world.wait_until(lambda: _decided(world) >= decided + HANDFUL, "the others to be decided", 90)
    world.wait_until(lambda: world.count("orders_order") >= placed + HANDFUL, "their orders to be placed", 90)
    world.wait_until(lambda: world.count(told) > shown, "their buyers to be told", 90)
    decided, placed = _decided(world) - decided, world.count("orders_order") - placed
    world.word("stop", name="mqcore")
    for at, content in kept:
        at.rmdir()
        at.write_bytes(content)
    world.word("start", name="mqcore")
    world.wait_until(lambda: world.is_up("mqcore"), "the broker to be up")
    yield
    world.proves("partitions offline", len(kept))
    world.proves("decided meanwhile", decided)
    world.proves("orders placed meanwhile", placed)


def _take_away(world: World, topic: str) -> tuple[Path, bytes]:
    """Its newest segment cannot be opened: a folder stands in its place."""
    at = max((world.folder / "mqcore" / f"{topic}-{BAD_PARTITION}").glob("*.log"))
    content = at.read_bytes()
    at.unlink()
    at.mkdir()
    return at, content


@case(
    "46", "redis-hangs", "Redis takes connections and answers nothing, with a queue to be decided", rush=Rush(over_s=8)
)
def redis_hangs(world: World) -> Acts:
    world.word("stop", name="inventory")
    world.wait_until(lambda: progress.in_flight(world) >= HANDFUL, "a queue")
    before = _decided(world)
    with world.frozen("redis"):
        world.word("start", name="inventory")
        world.wait_until(lambda: _decided(world) >= before + HANDFUL, "inventory to decide without Redis", 60)
        decided = _decided(world) - before
    yield
    world.proves("decided while Redis hung", decided)
    asked = sum(world.log_of(name).count("moment ago") for name in world.instances("inventory"))
    world.tells("calls of Redis that nobody waited for", asked)


def _decided(world: World) -> int:
    """Of all sales."""
    return world.count("inventory_decided")
