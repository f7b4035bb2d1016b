"""Verbs that several cases share: let a service die at a named point of its code, see what the crowd was answered."""

from __future__ import annotations

import json
from collections import Counter

from seckill.faults.case import Acts
from seckill.faults.world import World


def dies_at(world: World, service: str, point: str) -> Acts:
    """Each of its processes dies there once; one that did not come there is disarmed afterwards."""
    world.restart_with(service, SECKILL_FAULT=f"{point}:once")
    before = {name: world.rows()[name]["restarts"] for name in world.instances(service)}

    def died() -> list[str]:
        rows = world.rows()
        return [name for name, restarts in before.items() if rows[name]["restarts"] > restarts]

    world.wait_until(died, f"{service} to die at {point}")
    yield
    world.proves("processes killed", len(died()))
    for name in before.keys() - set(died()):
        world.word("stop", name=name)
        world.word("start", name=name)
    world.wait_until(lambda: world.is_up(service), f"{service} to be up")


def answers(world: World) -> Counter[str]:
    """What the crowd's attempts were answered: statuses, and the last part of each problem's type."""
    assert world.crowd is not None
    counted: Counter[str] = Counter()
    for line in world.crowd.log.read_text().splitlines():
        said = json.loads(line)
        if said["what"] == "purchase":
            counted[str(said["status"])] += 1
            if said.get("problem"):
                counted[str(said["problem"]).rpartition("/")[2]] += 1
    return counted


def turned_away(world: World) -> int:
    """Attempts that got no answer, or were asked to come again."""
    counted = answers(world)
    return counted["0"] + counted["503"] + counted["502"]
