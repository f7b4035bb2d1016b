"""Everything at once: each process told to stop in turn, and processes killed at random all the time."""

from __future__ import annotations

import random
import time
from collections import Counter

from seckill.faults.case import Acts, Rush, case
from seckill.faults.world import WITNESSES, World, service_of

EVERY_S = 5.0
CHAOS = Rush(units=1000, buyers=60_000, over_s=600, words=("--double-click", "0.6", "--patience", "3000"))


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


@case("chaos", "chaos", f"kill -9 of a random process every {EVERY_S:.0f} s, as long as somebody buys", rush=CHAOS)
def chaos(world: World) -> Acts:
    chance = random.Random(world.seed)
    killed: Counter[str] = Counter()
    assert world.crowd is not None
    while world.crowd.is_there:
        time.sleep(EVERY_S)
        alive = [name for name, row in world.rows().items() if row["pid"] and not name.startswith(WITNESSES)]
        name = chance.choice(sorted(alive))
        world.word("kill", name=name)
        killed[service_of(name)] += 1
        world.note("chaos", f"kill {name}")
    yield
    world.proves("processes killed", killed.total())
    world.tells("which", ", ".join(f"{name} {count}" for name, count in sorted(killed.items())))
    world.tells("seed", world.seed)
