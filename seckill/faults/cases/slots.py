"""The queue itself is rebuilt: partitions are added, and users' slots go to them; or a second queue goes past it."""

from __future__ import annotations

import re
from collections.abc import Container
from dataclasses import replace
from itertools import count, islice

from seckill.faults.case import Acts, Rush, case
from seckill.faults.crowd import Buyer
from seckill.faults.world import Stuck, World
from seckill.streams.partitioners import slot_of
from seckill.topics import PURCHASE_DIVERTED, PURCHASE_REQUESTS

MORE = 4
MOVERS = 20
STAYERS = 10
GREEDY = Rush(over_s=8, words=("--greedy", "0.6"))
SLOW = replace(GREEDY, over_s=30)  # who asks again later may find his slot in another place


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


@case("23b", "queue-diverted", "a queue stands still; new requests go past it, nobody past himself", rush=GREEDY)
def queue_diverted(world: World) -> Acts:
    """Some have asked before, and ask again when it is diverted: they stay where they are. I16 is about them."""
    world.word("stop", name="inventory")
    with world.book("queue-diverted", world.side_sale) as book:
        staying = [Buyer(world.gateway, f"stays-{number}", book.sale, book) for number in range(STAYERS)]
        for buyer in staying:
            buyer.buy("before")
        _say(world, "backlog", "divert", "diverted;")
        for buyer in staying:
            buyer.buy("after")
        for number in range(STAYERS):
            Buyer(world.gateway, f"goes-{number}", book.sale, book).buy()
        world.word("start", name="inventory")
        _say(world, "backlog", "rejoin", "joined again")
    yield
    world.proves("decided past the queue", _decided_in(world, PURCHASE_DIVERTED.name, "%"))
    world.proves("asked again and stayed", _decided_in(world, PURCHASE_REQUESTS.name, "stays-%") - STAYERS)
    world.tells("of them led past themselves", _decided_in(world, PURCHASE_DIVERTED.name, "stays-%"))


def _say(world: World, *words: str) -> None:
    """An operator's words; the last is what he must be told."""
    told = world.seckill(*words[:-1])
    if words[-1] not in told:
        raise Stuck(f"{' '.join(words[:-1])}: {told.strip()[-300:]}")


def _decided_in(world: World, topic: str, users: str) -> int:
    return world.count(
        "inventory_decided JOIN (SELECT DISTINCT topic, topic_id FROM streams_offset) AS log USING (topic_id) "
        "WHERE topic = %s AND user_id LIKE %s",
        topic, users,
    )  # fmt: skip


def _users(prefix: str, slots: Container[int]) -> list[str]:
    """Some whose slots are among these."""
    names = (f"{prefix}-{number}" for number in count())
    return list(islice((name for name in names if slot_of(name.encode()) in slots), MOVERS))
