"""Verbs that several cases share: let a service die at a named point of its code, see what the crowd was answered."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Mapping
from pathlib import Path

from seckill.faults.case import Acts
from seckill.faults.world import World


def dies_at(world: World, service: str, point: str) -> Acts:
    """Each of its processes dies there once; one that did not come there is disarmed afterwards."""
    yield from die({service: (f"{point}:once",)}, world)


def die(points: Mapping[str, tuple[str, ...]], world: World) -> Acts:
    """Of each service a process dies at all of its points, one in each life; who has not is disarmed afterwards."""
    before: dict[str, int] = {}
    for service, its in points.items():
        rows = world.rows()
        before |= {name: rows[name]["restarts"] + 1 for name in world.instances(service)}  # one restart is ours
        world.restart_with(service, SECKILL_FAULT=",".join(its))

    def deaths(service: str) -> dict[str, int]:
        rows = world.rows()
        return {name: rows[name]["restarts"] - before[name] for name in world.instances(service)}

    for service, its in points.items():
        wanted = len(its)
        world.wait_until(lambda: max(deaths(service).values()) >= wanted, f"{service} to die at {', '.join(its)}")  # noqa: B023
    yield
    for service, its in points.items():
        died = deaths(service)
        world.proves(f"{service} killed", sum(died.values()))
        for name in [name for name, times in died.items() if times < len(its)]:
            world.word("stop", name=name)
            world.word("start", name=name)
    world.wait_until(lambda: world.is_up(*points), "whoever died to be up")


def answers(world: World) -> Counter[str]:
    """What attempts were answered, the crowd's and those of whoever came after it: statuses, and the last part of each
    problem's type."""
    assert world.crowd is not None
    counted: Counter[str] = Counter()
    stragglers = world.crowd.log.with_suffix(".stragglers.scripted.jsonl")
    for path in filter(Path.exists, (world.crowd.log, stragglers)):
        for said in map(json.loads, path.read_text().splitlines()):
            if said["what"] == "purchase":
                counted[str(said["status"])] += 1
                if said.get("problem"):
                    counted[str(said["problem"]).rpartition("/")[2]] += 1
    return counted


def turned_away(world: World) -> int:
    """Attempts that got no answer, or were asked to come again."""
    counted = answers(world)
    return counted["0"] + counted["503"] + counted["502"]
