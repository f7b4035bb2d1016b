"""What buyers do: click twice, come by two doors, come too early, come in thousands."""

from __future__ import annotations

import itertools
import json
import time
from collections import Counter
from concurrent.futures import ThreadPoolExecutor

from seckill.faults.case import Acts, Rush, case
from seckill.faults.crowd import Buyer, at_once
from seckill.faults.doors import second_gateway
from seckill.faults.world import World

PAIRS = 12
BOT_ATTEMPTS = 1000


@case("1", "double-click", "every buyer clicks twice, under one key", rush=Rush(words=("--double-click", "1")))
def double_click(world: World) -> Acts:
    yield
    assert world.crowd is not None
    accepted: Counter[str] = Counter()
    for line in world.crowd.log.read_text().splitlines():
        said = json.loads(line)
        if said["what"] == "purchase" and said["status"] == 202:
            accepted[said["request_id"]] += 1
    world.proves("requests accepted more than once", sum(count > 1 for count in accepted.values()))
    world.tells("stood in the log again", world.count("inventory_redelivery"))


@case("2", "two-doors", "one user, two keys, two gateways, at the same instant")
def two_doors(world: World) -> Acts:
    with second_gateway(world) as other, world.book("two-doors", world.create_sale(PAIRS)) as book:
        for number in range(PAIRS):
            buyer = Buyer(world.gateway, f"twofold-{number}", book.sale, book)
            at_once([lambda buyer=buyer: buyer.buy("left"), lambda buyer=buyer: buyer.buy("right", via=other)])  # type: ignore[misc]
    yield
    both = world.query(
        "SELECT count(*) FROM (SELECT user_id FROM inventory_decided WHERE sale_id = %s AND user_id LIKE 'twofold-%%' "
        "GROUP BY user_id HAVING count(*) = 2) AS twice",
        book.sale,
    )
    world.proves("users with two requests decided", int(both[0][0]))
    world.tells("refused as duplicates", world.count("inventory_decided WHERE decision = 'DUPLICATE'"))


@case("33", "skewed-clock", "one gateway's clock is 90 s ahead, then 90 s behind")
def skewed_clock(world: World) -> Acts:
    asked = 0
    with world.book("skewed-clock", world.create_sale(3 * PAIRS)) as book:
        for skew_s in (90, -90):
            with second_gateway(world, skew_s) as other:
                for number in range(PAIRS):
                    buyer = Buyer(world.gateway, f"skewed{skew_s}-{number}", book.sale, book)
                    asked += buyer.buy(via=other).status == 202
    yield
    world.proves("accepted by a gateway whose clock was wrong", asked)


@case("34", "before-and-after", "requests before the sale opens and after it has closed, and with another's ticket")
def before_and_after(world: World) -> Acts:
    with world.book("before-and-after", world.create_sale(5, opens_in=8, lasts=12)) as book:
        early = Buyer(world.gateway, "early", book.sale, book)
        too_early = early.ask().status == 403
        taken = early.buy().status == 202
        thief = Buyer(world.gateway, "thief", book.sale, book)
        stolen = thief.ask(ticket=early.fetch_ticket()).status == 403
        keys = itertools.count()  # a key that is known gets its own answer for ever
        world.wait_until(lambda: early.ask(f"again-{next(keys)}").status == 410, "the sale to close")
        too_late = Buyer(world.gateway, "late", book.sale, book).ask().status == 410
    yield
    world.proves("refused before the opening", too_early)
    world.proves("accepted in between", taken)
    world.proves("refused with another's ticket", stolen)
    world.proves("refused after the end", too_late)


@case("35", "hot-article", "everybody wants one article; beside it a quiet sale goes on", rush=Rush(buyers=300))
def hot_article(world: World) -> Acts:
    with world.book("hot-article", world.create_sale(50)) as book:
        began = time.monotonic()
        calm = [Buyer(world.gateway, f"calm-{number}", book.sale, book) for number in range(5)]
        served = [buyer.wait_for(buyer.buy().request, "AWAITING_PAYMENT", "EXPIRED") for buyer in calm]
        took_ms = int((time.monotonic() - began) * 1000)
    yield
    world.proves("served in the quiet sale", sum(bool(seen) for seen in served))
    world.tells("that took, ms", took_ms)


@case("36", "bots", "one account a thousand times, and many accounts behind one address")
def bots(world: World) -> Acts:
    with world.book("bots") as book, ThreadPoolExecutor(16) as threads:
        bot = Buyer(world.gateway, "bot", world.sale, book, "10.6.6.6")
        alone = Counter(told.status for told in threads.map(bot.ask, [f"key-{n}" for n in range(BOT_ATTEMPTS)]))
        puppets = list(
            threads.map(lambda n: Buyer(world.gateway, f"puppet-{n}", world.sale, book, "10.7.7.7"), range(100))
        )
        many = Counter(told.status for told in threads.map(Buyer.ask, puppets))
    yield
    world.proves("attempts of one account slowed down", alone[429])
    world.tells("of one account let in", alone[202])
    world.tells("of many accounts let in", many[202])
    held = world.count("inventory_hold WHERE user_id = 'bot' AND sale_id = %s AND state <> 'released'", world.sale)
    world.tells("units the one account has", held)
