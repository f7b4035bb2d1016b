"""The broker stalls, goes away, dies."""

from __future__ import annotations

import time

from seckill.faults.case import Acts, Rush, absent, case
from seckill.faults.cases.dying import answers, turned_away
from seckill.faults.world import World

OUTAGE_S = 5.0
STALL_S = 6.0


@case("5", "broker-stalls", "the broker holds still: nobody knows what became of what was sent", rush=Rush(over_s=8))
def broker_stalls(world: World) -> Acts:
    with world.frozen("mqcore"):
        time.sleep(STALL_S)
    yield
    counted = answers(world)
    world.proves("told that nobody knows", counted["queue-unknown"] + counted["0"])
    world.tells("told that the queue takes nothing", counted["queue-unavailable"])


@case("6", "broker-down", "the whole broker is down for a while in the middle of the sale", rush=Rush(over_s=8))
def broker_down(world: World) -> Acts:
    world.word("stop", name="mqcore")
    time.sleep(OUTAGE_S)
    world.word("start", name="mqcore")
    yield
    world.proves("attempts turned away", turned_away(world))


@case("7", "broker-killed", "kill -9 of the broker, twice", rush=Rush(over_s=8))
def broker_killed(world: World) -> Acts:
    before = world.restarts("mqcore")
    for time_number in (1, 2):
        world.word("kill", name="mqcore")
        world.wait_until(
            lambda: world.restarts("mqcore") >= before + time_number and world.is_up("mqcore"),  # noqa: B023
            "the broker to be back",
        )
    yield
    world.proves("processes killed", world.restarts("mqcore") - before)


absent("7b", "leader-killed", "kill -9 of a partition's leader", "needs cluster")
absent("8", "minority-cut-off", "a minority of brokers is partitioned away", "needs cluster")
