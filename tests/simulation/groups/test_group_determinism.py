"""A simulation is only worth its seed if the seed repeats the history exactly."""

from __future__ import annotations

from random import Random

from tests.simulation.groups.client import PARTITIONS, PROTOCOLS, Client
from tests.simulation.groups.group_workload import GroupWorkload
from tests.unit.mqcore.groups.group_driver import AT_ONCE

STEPS = 300


def run_history(seed: int) -> list[object]:
    random = Random(seed)
    workload = GroupWorkload(AT_ONCE)
    for number in range(STEPS):
        kind = random.randrange(8)
        if kind == 0 or not workload.clients:
            instance = random.choice([None, None, "till-1", "till-2"])
            workload.clients.append(Client(number, instance, random.choice(PROTOCOLS), random.random() < 0.5))
        client = random.choice(workload.clients)
        match kind:
            case 1:
                workload.commit(client, random.choice(PARTITIONS))
            case 2:
                workload.heartbeat(client)
            case 3 if random.random() < 0.1:
                workload.leave(client)
            case 4 if random.random() < 0.1:
                workload.crash(lost=random.randrange(3))
            case 5:
                workload.group.advance(random.choice([500, 3_000, 12_000]))
            case _:
                workload.next_step(client)
        workload.check()
    workload.fall_silent()
    return workload.trace()


def test_the_same_seed_gives_the_same_facts_and_answers() -> None:
    first = run_history(1)
    assert len(first) > STEPS
    assert run_history(1) == first


def test_another_seed_gives_another_history() -> None:
    assert run_history(1) != run_history(2)
