"""Everything: each process told to stop in turn, each killed around its commits, or killed at random all the time."""

from __future__ import annotations

import random
import time
from collections import Counter
from collections.abc import Mapping
from statistics import median
from typing import Any

import psycopg

from seckill.faults.case import Acts, Rush, case
from seckill.faults.cases.dying import answers, die
from seckill.faults.world import WITNESSES, World, service_of
from seckill.topics import TOPICS

RELAYS = ("inventory", "orders")
EVERY_S = 5.0
LOOK_S = 0.25
TELL_S = 15.0
CHAOS = Rush(
    units=1000, buyers=46_000, over_s=400, time_to_pay_s=120, stays=True,
    words=("--double-click", "1", "--pay", "0.5", "--patience", "1500"),
)  # fmt: skip
"""Half of those who get a unit let it go again, and late: so there is something to decide to the end."""


@case("39", "rolling-stop", "SIGTERM of everything, one after the other, under load", rush=Rush(buyers=300, over_s=40))
def rolling_stop(world: World) -> Acts:
    stopped = 0
    for name in world.rows():
        if name.startswith(WITNESSES):
            continue
        world.word("stop", name=name)
        world.word("start", name=name)
        world.wait_until(lambda: world.is_up(name), f"{name} to be up")  # noqa: B023
        stopped += 1
    yield
    world.proves("processes stopped and started", stopped)


@case(
    "10b", "everybody-killed",
    "each consumer dies before a commit, comes back and dies after one; each relay before it removes what it has sent",
)  # fmt: skip
def everybody_killed(world: World) -> Acts:
    groups = sorted({group for topic in TOPICS.values() for group in topic.readers if group != "analytics"})
    points = {group: (f"{group}.before_commit:once", f"{group}.after_commit:second") for group in groups}
    yield from die(points | {f"relay.{writer}": (f"relay.{writer}.before_delete:once",) for writer in RELAYS}, world)


@case("chaos", "chaos", f"kill -9 of a random process every {EVERY_S:.0f} s, as long as somebody buys", rush=CHAOS)
def chaos(world: World) -> Acts:
    assert world.crowd is not None
    chance, toll = random.Random(world.seed), Toll()
    began = time.monotonic()
    blow_at, tell_at = began + EVERY_S, began
    while world.crowd.is_there:
        time.sleep(LOOK_S)
        now, rows = time.monotonic(), world.rows()
        toll.look(rows, now)
        if now >= blow_at:
            name = chance.choice(sorted(name for name in rows if rows[name]["pid"] and not name.startswith(WITNESSES)))
            world.word("kill", name=name)
            world.note("chaos", f"kill {name}")
            toll.strike(name, rows, now)
            blow_at += EVERY_S
        if now >= tell_at:
            world.say(f"chaos: {now - began:.0f} s, {toll.killed.total()} killed, {_decided(world)} decided")
            tell_at += TELL_S
    yield
    world.proves("processes killed", toll.killed.total())
    world.tells("of them", ", ".join(f"{name} {count}" for name, count in sorted(toll.killed.items())))
    world.proves("of them back again", len(toll.away_s))
    world.tells("up again after", f"{median(toll.away_s):.1f} s (median), {max(toll.away_s):.1f} s (longest)")
    counted = answers(world)
    world.tells("attempts", sum(count for answer, count in counted.items() if answer.isdigit()))
    world.tells("answered", ", ".join(f"{answer} {count:,}" for answer, count in counted.most_common()))
    decided = world.query(
        "SELECT decision, count(*) FROM inventory_decided WHERE sale_id = %s GROUP BY 1 ORDER BY 2 DESC", world.sale
    )
    world.tells("decided", ", ".join(f"{decision} {count:,}" for decision, count in decided))
    world.tells("seed", world.seed)


class Toll:
    """Who was killed, and how long it took until he was up again."""

    def __init__(self) -> None:
        self.killed: Counter[str] = Counter()
        self.away_s: list[float] = []
        self._away: dict[str, tuple[float, int]] = {}  # since when; lives until then

    def strike(self, name: str, rows: Mapping[str, Mapping[str, Any]], now: float) -> None:
        """One that is killed once more before it was up is away since the first time."""
        self.killed[service_of(name)] += 1
        self._away[name] = (self._away.get(name, (now, 0))[0], rows[name]["restarts"])

    def look(self, rows: Mapping[str, Mapping[str, Any]], now: float) -> None:
        for name, (since, lives) in list(self._away.items()):
            if rows[name]["state"] == "up" and rows[name]["restarts"] > lives:
                self.away_s.append(now - since)
                del self._away[name]


def _decided(world: World) -> str:
    try:
        return f"{world.decided():,}"
    except psycopg.Error:
        return "nobody can say how many are"  # Postgres may be the one that is away
