"""Redis forgets, remembers wrongly, holds still, or is told a lie."""

from __future__ import annotations

import shutil
import time
from itertools import count, islice

from seckill.faults.case import Acts, Rush, case
from seckill.faults.cases.dying import turned_away
from seckill.faults.crowd import Buyer
from seckill.faults.world import World
from seckill.streams.partitioners import slot_of

STALL_S = 4.0
LIE = 50
BELIEVERS = 40


@case("12", "redis-flushall", "everything in Redis is gone")
def flushall(world: World) -> Acts:
    redis = world.redis()
    world.tells("keys lost", redis.dbsize())
    before = _epoch(world, world.sale)
    redis.flushall()
    yield
    world.proves("times the gate was built anew", _epoch(world, world.sale) - before)


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


@case("15a", "gate-lies", f"the counter in Redis is raised by {LIE}, by hand: the row has to say no")
def gate_lies(world: World) -> Acts:
    """They wait in the queue when it happens, all in one partition, so that one batch asks for more than there is: of
    a row that shows nothing left the gate is not asked any more."""
    with world.book("gate-lies", world.create_sale(1)) as book:
        world.word("stop", name="inventory")
        for name in _neighbours(world):
            Buyer(world.gateway, name, book.sale, book).buy()
        before = _epoch(world, book.sale)
        key = f"sale:{{{book.sale}}}:gate:phone:{before}:free"
        world.tells("the gate then says", int(world.redis().incrby(key, LIE)))
        world.word("start", name="inventory")
        world.wait_until(lambda: world.decided(book.sale) >= BELIEVERS, "all of them to be decided")
    yield
    world.proves("times the gate was built anew", _epoch(world, book.sale) - before)
    refused = "inventory_decided WHERE sale_id = %s AND decision = 'SOLD_OUT'"
    world.proves("refused by the row", world.count(refused, book.sale))


def _neighbours(world: World) -> list[str]:
    """Users whose requests stand in the same partition."""
    partition_of = world.slots().partition_of
    names = (f"believer-{number}" for number in count())
    return list(islice((name for name in names if partition_of[slot_of(name.encode())] == 0), BELIEVERS))


def _epoch(world: World, sale: int) -> int:
    return int(world.query("SELECT gate_epoch FROM inventory_stock WHERE sale_id = %s", sale)[0][0])
