"""Inventory dies at every place where it could lose or double something; a zombie of it wakes up too late."""

from __future__ import annotations

import time
from pathlib import Path

from seckill.faults.case import Acts, Rush, case
from seckill.faults.cases.dying import dies_at
from seckill.faults.world import World

SIZES = (4, 1, 3, 2)


@case("9", "inventory-killed-after-commit", "decided and committed; the broker's offsets are not")
def after_commit(world: World) -> Acts:
    yield from dies_at(world, "inventory", "inventory.after_commit")


@case("10", "inventory-killed-before-commit", "everything is written, nothing is committed")
def before_commit(world: World) -> Acts:
    yield from dies_at(world, "inventory", "inventory.before_commit")


@case("11", "inventory-killed-after-redis", "Redis has granted, Postgres knows nothing of it")
def after_gate(world: World) -> Acts:
    yield from dies_at(world, "inventory", "inventory.after_gate")


@case(
    "21", "rebalance-storm", "consumers come and go; one sleeps through it and wakes up too late", rush=Rush(over_s=10)
)
def rebalance_storm(world: World) -> Acts:
    fenced = sum(world.log_of(name).count("fenced") for name in world.instances("inventory"))
    sleeper = "inventory.1"
    world.word("stop", name=sleeper)
    world.word("start", name=sleeper, **{"with": {"SECKILL_FAULT": "inventory.before_batch:freeze"}})
    world.wait_until(lambda: is_stopped(world.pid(sleeper)), "one to fall asleep in the middle of its work")
    before = _epochs(world)
    world.wait_until(
        lambda: all(epoch > before.get(partition, 0) for partition, epoch in _epochs(world).items()),
        "its partitions to be taken over",
    )
    world.wake(sleeper)
    for size in SIZES:
        world.word("scale", service="inventory", count=size)
        time.sleep(1.0)
    yield
    again = sum(world.log_of(name).count("fenced") for name in ("inventory.1", "inventory.2")) - fenced
    world.proves("late commits fenced", again)
    world.tells("claims of partitions meanwhile", sum(_epochs(world).values()) - sum(before.values()))
    world.restart_with("inventory")


def _epochs(world: World) -> dict[tuple[str, int], int]:
    """How often each partition was claimed. While he who has it sleeps, only a successor claims it."""
    rows = world.query("SELECT topic, partition, epoch FROM streams_offset WHERE consumer_group = 'inventory'")
    return {(topic, partition): epoch for topic, partition, epoch in rows}


def is_stopped(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] == "T"
    except OSError:
        return False
