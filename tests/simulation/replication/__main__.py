"""Run histories and print what they show.

python -m tests.simulation.replication 17              one seed, with its troubles
python -m tests.simulation.replication 0:1000          a range; stops at the first failure
python -m tests.simulation.replication 0:3000 --bug M4 how many histories it takes to find a seeded bug
"""

from __future__ import annotations

import argparse
import time

from tests.simulation.replication.setup import Setup
from tests.simulation.replication.troubles import troubles_of
from tests.simulation.replication.world import BROKERS, World, run_history


def run_range(first: int, last: int, setup: Setup) -> None:
    started = time.perf_counter()
    events = elections = 0
    for seed in range(first, last):
        world = run_history(seed, setup)
        events += world.events.count
        elections += world.elections
    seconds = time.perf_counter() - started
    count = last - first
    print(f"{count} histories without a violation: {events} events, {elections} elections, {seconds:.0f} s")


def run_one(seed: int, setup: Setup) -> None:
    world = World(seed, setup)
    for trouble in troubles_of(seed * 8 + 7, BROKERS, with_power=world.durable_only):
        print(trouble)
    world = run_history(seed, setup)
    committed = sum(truth.end for truth in world.truth.partitions.values())
    print(f"seed {seed}: {world.events.count} events, {world.elections} elections, {committed} records, ", end="")
    print(f"trace {world.events.trace_hash}")


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m tests.simulation.replication")
    parser.add_argument("seeds", help="one seed, or FIRST:LAST")
    arguments = parser.parse_args()
    first, _, last = arguments.seeds.partition(":")
    if last:
        run_range(int(first), int(last), Setup())
    else:
        run_one(int(first), Setup())


if __name__ == "__main__":
    main()
