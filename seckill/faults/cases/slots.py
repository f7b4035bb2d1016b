"""The queue itself is rebuilt: partitions are added, and users' slots go to them."""

from __future__ import annotations

import re
from collections.abc import Container
from itertools import count, islice

from seckill.faults.case import Acts, Rush, case
from seckill.faults.crowd import Buyer
from seckill.faults.world import Stuck, World
from seckill.streams.partitioners import slot_of

MORE = 4
MOVERS = 20
SLOW = Rush(over_s=30, words=("--greedy", "0.6"))  # who asks again later may find his slot in another place


@case("22", "slots-moved", "partitions are added and slots moved in the middle of the sale", rush=SLOW)
def slots_moved(world: World) -> Acts:
    """Some ask before and after, and it is known that their slots are moved in between: I16 is about them."""
    before = world.slots()
    first_new = max(before.partition_of) + 1
    with world.book("slots-moved", world.side_sale) as book:
        names = _users(f"mover-{first_new}", before.moves_to(first_new + MORE))
        movers = [Buyer(world.gateway, name, book.sale, book, f"10.9.8.{number}") for number, name in enumerate(names)]
        for mover in movers:
            mover.buy("before")
        told = world.seckill("slots", "grow", str(first_new + MORE), "--at-once", "128")
        moved = re.search(r"(\d+) slots are moved", told)
        if moved is None:
            raise Stuck(f"slots grow: {told.strip()[-300:]}")
        for mover in movers:
            mover.buy("after")
    yield
    after = world.slots()
    pairs = zip(before.partition_of, after.partition_of, strict=True)
    world.proves("slots moved", sum(old != new for old, new in pairs))
    world.proves("decided in new partitions", world.count("inventory_decided WHERE partition >= %s", first_new))
    world.tells("partitions", first_new + MORE)
    world.tells("versions of the table", after.version - before.version)


def _users(prefix: str, slots: Container[int]) -> list[str]:
    """Some whose slots are among these."""
    names = (f"{prefix}-{number}" for number in count())
    return list(islice((name for name in names if slot_of(name.encode()) in slots), MOVERS))
