"""Redis forgets, remembers wrongly, holds still, or is told a lie."""

from __future__ import annotations

import shutil
import time

from seckill.faults.case import Acts, Rush, case
from seckill.faults.cases.dying import turned_away
from seckill.faults.world import World

STALL_S = 4.0
LIE = 50


@case("12", "redis-flushall", "everything in Redis is gone")
def flushall(world: World) -> Acts:
    redis = world.redis()
    world.tells("keys lost", redis.dbsize())
    before = _epoch(world)
    redis.flushall()
    yield
    world.proves("times the gate was built anew", _epoch(world) - before)


@case("13", "redis-restarted-old", "Redis comes back with the data of some seconds ago", rush=Rush(over_s=8))
def restarted_with_old_data(world: World) -> Acts:
    folder, kept = world.folder / "redis", world.folder / "redis.old"
    shutil.copytree(folder, kept)
    decided = world.decided()
    world.wait_until(lambda: world.decided() > decided + 20, "the sale to go on")
    was = world.redis().dbsize()
    world.word("stop", name="redis")
    shutil.rmtree(folder)
    kept.rename(folder)
    world.word("start", name="redis")
    world.wait_until(lambda: world.is_up("redis"), "Redis to be back")
    world.proves("decisions it knows nothing of", world.decided() - decided)
    world.tells("keys before and after", f"{was:,} and {world.redis().dbsize():,}")
    yield


@case("14", "redis-stalls", "Redis holds still: did the script run or not?", rush=Rush(over_s=8))
def stalls(world: World) -> Acts:
    with world.frozen("redis"):
        time.sleep(STALL_S)
    yield
    paused = sum(world.log_of(name).count("does not answer") for name in world.instances("inventory"))
    world.tells("batches decided without the gate", paused)
    world.proves("attempts turned away", turned_away(world))


@case("15a", "gate-lies", f"the counter in Redis is raised by {LIE}, by hand", rush=Rush(units=20))
def gate_lies(world: World) -> Acts:
    before = _epoch(world)
    [[sku]] = world.query("SELECT sku FROM inventory_stock WHERE sale_id = %s", world.sale)
    key = f"sale:{{{world.sale}}}:gate:{sku}:{before}:free"
    world.tells("the gate then says", int(world.redis().incrby(key, LIE)))
    yield
    world.proves("times the gate was built anew", _epoch(world) - before)


def _epoch(world: World) -> int:
    return int(world.query("SELECT gate_epoch FROM inventory_stock WHERE sale_id = %s", world.sale)[0][0])
