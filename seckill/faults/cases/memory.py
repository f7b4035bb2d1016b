"""Two sales at once; and buyers who come back after Redis has lost what it knew of them, or has an older state."""

from __future__ import annotations

import shutil
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager

from seckill.faults.case import Acts, Rush, case
from seckill.faults.crowd import Book, Buyer, Crowd
from seckill.faults.world import World
from seckill.stack.process import bare

BUYERS = 12
HELD = ("RESERVED", "AWAITING_PAYMENT", "PAID", "EXPIRED", "CANCELLED")
SECOND = Rush(units=120, buyers=200, over_s=8)


@case("47", "two-sales", "two sales sell at once: their batches lock the same rows", rush=Rush(units=120, over_s=8))
def two_sales(world: World) -> Acts:
    deadlocks = "SELECT deadlocks FROM pg_stat_database WHERE datname = current_database()"
    before = world.query(deadlocks)[0][0]
    sale = world.create_sale(world.scaled(SECOND.units))
    rush = Rush(world.scaled(SECOND.units), world.scaled(SECOND.buyers), SECOND.over_s)
    crowd = Crowd(world.gateway, sale, rush, world.evidence / "two-sales.second.jsonl", bare())
    try:
        yield
        crowd.leave()
    finally:
        crowd.end()
    both = "SELECT count(*) FROM inventory_ledger l JOIN inventory_stock s ON s.id = l.stock_id WHERE sale_id = %s"
    for name, number in (("first", world.sale), ("second", sale)):
        world.proves(f"moves of units in the {name} sale", world.query(both, number)[0][0])
    world.wait_until(lambda: world.count("inventory_hold WHERE state = 'reserved'") == 0, "all orders to have ended")
    world.proves("no deadlock", int(world.query(deadlocks)[0][0] == before))


@contextmanager
def _holders(world: World, name: str) -> Iterator[tuple[Book, dict[str, Buyer]]]:
    """Buyers who have been shown that a unit is theirs, by request."""
    count = world.scaled(BUYERS)
    with world.book(name, world.create_sale(2 * count)) as book:
        buyers = [Buyer(world.gateway, f"{name}-{number}", book.sale, book) for number in range(count)]
        with ThreadPoolExecutor(count) as pool:
            requests = list(pool.map(lambda buyer: buyer.buy().request, buyers))
        yield book, dict(zip(requests, buyers, strict=True))


def _see(held: dict[str, Buyer]) -> None:
    for request, buyer in held.items():
        buyer.wait_for(request, *HELD)


def _come_again(world: World, held: dict[str, Buyer]) -> None:
    """Under the same key, and then they look."""
    same = [request for request, buyer in held.items() if buyer.buy().request == request]
    world.proves("known under the same key", len(same))
    states: Sequence[str] = [str(buyer.look(request).get("state")) for request, buyer in held.items()]
    world.proves("nobody was shown an older state", int(all(state in HELD for state in states)))
    if len(same) < len(held):
        world.missing.append(f"{len(held) - len(same)} were not known under their key")


@case("48", "redis-rewound", "Redis comes back as it was before a purchase; its buyer asks again", rush=Rush(over_s=8))
def rewound(world: World) -> Acts:
    folder, kept = world.folder / "redis", world.folder / "redis.before"
    shutil.copytree(folder, kept)
    with _holders(world, "redis-rewound") as (_, held):
        _see(held)
        world.word("stop", name="redis")
        shutil.rmtree(folder)
        kept.rename(folder)
        world.word("start", name="redis")
        world.wait_until(lambda: world.is_up("redis"), "Redis to be back")
        redis = world.redis()
        forgotten = [request for request in held if not redis.exists(f"admission:request:{request}")]
        world.proves("requests it does not know any more", len(forgotten))
        _come_again(world, held)
    yield


@case("49", "known-key-after-flush", "a unit is held, Redis forgets all, the sale is closed: the same key again")
def known_key(world: World) -> Acts:
    with _holders(world, "known-key-after-flush") as (book, held):
        _see(held)
        world.redis().flushall()
        world.manage("sale", "close", str(book.sale))
        _come_again(world, held)
        stranger = Buyer(world.gateway, "known-key-stranger", book.sale, book).buy()
        world.proves("everybody else is refused", int(stranger.status == 410))
    yield
