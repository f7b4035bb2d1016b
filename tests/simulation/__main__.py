"""Run simulated histories of the broker.

python -m tests.simulation raft 17               one history, with its troubles and its trace
python -m tests.simulation cluster 0:100         a range; names every seed that fails
python -m tests.simulation night                 10,000 of machines and 1,000 of whole brokers, added to the totals
python -m tests.simulation night --machines 300 --brokers 30 --totals /tmp/simulations.json

An interrupted `night` continues where it ended. The simulations are raft, replication, controller and cluster.
`python -m tests.simulation.seeded_bugs` shows what they find.
"""

from __future__ import annotations

import argparse
import logging
import time
from collections.abc import Callable
from pathlib import Path

from tests.simulation.kinds import KINDS, Kind
from tests.simulation.totals import Totals

TOTALS = Path("docs/generated/simulations.json")
SAVE_EVERY = 20


def run_one(kind: Kind, seed: int) -> bool:
    try:
        counts = kind.run(seed, print)
    except Exception as error:
        print(f"{kind.name} {seed} fails: {type(error).__name__}: {error}", *getattr(error, "__notes__", ()), sep="\n")
        return False
    print(f"{kind.name} {seed} holds: {counts.events} events, {counts.faults} faults, ", end="")
    print(f"{counts.elections} elections, trace {counts.trace}")
    return True


def run_seeds(kind: Kind, totals: Totals, goal: int, save: Callable[[], None]) -> bool:
    """Add histories until there are `goal`. False if one of them fails."""
    total = totals.by_kind[kind.name]
    holds = True
    while total.histories < goal:
        seed, began, counts, failure = total.histories, time.process_time(), None, ""
        try:
            counts = kind.run(seed, lambda text: None)
        except Exception as error:
            holds, failure = False, f"{type(error).__name__}: {error}"[:300]
            print(f"{kind.name} {seed} fails; repeat it: python -m tests.simulation {kind.name} {seed}", flush=True)
        total.add(seed, counts, failure, time.process_time() - began)
        if total.histories % SAVE_EVERY == 0 or total.histories == goal:
            save()
            print(f"{kind.name}: {total.histories} of {goal} histories", flush=True)
    return holds


def run_range(kind: Kind, first: int, last: int) -> bool:
    totals = Totals(Path("there is no such file"))
    totals.by_kind[kind.name].histories = first
    return run_seeds(kind, totals, last, lambda: None)


def run_night(totals: Totals, machines: int, brokers: int) -> bool:
    of_machines = [kind for kind in KINDS if kind.is_of_machines]
    steps = {kind.name: -(-machines // len(of_machines)) if kind.is_of_machines else brokers for kind in KINDS}
    goals = {name: totals.by_kind[name].next_goal(step) if step else 0 for name, step in steps.items()}
    failing = [kind.name for kind in KINDS if not run_seeds(kind, totals, goals[kind.name], totals.save)]
    return not failing


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.simulation", description=__doc__.partition("\n")[0])
    parser.add_argument("simulation", choices=[*(kind.name for kind in KINDS), "night"])
    parser.add_argument("seeds", nargs="?", default="0", help="one seed, or FIRST:END")
    parser.add_argument("--machines", type=int, default=10_000, help="histories of machines in one night")
    parser.add_argument("--brokers", type=int, default=1_000, help="histories of whole brokers in one night")
    parser.add_argument("--totals", type=Path, default=TOTALS, help="the file with the totals; its page lies beside it")
    chosen = parser.parse_args()
    logging.getLogger("mqcore").addHandler(logging.NullHandler())
    if chosen.simulation == "night":
        return int(not run_night(Totals(chosen.totals), chosen.machines, chosen.brokers))
    kind = next(kind for kind in KINDS if kind.name == chosen.simulation)
    first, _, end = chosen.seeds.partition(":")
    return int(not (run_range(kind, int(first), int(end)) if end else run_one(kind, int(first))))


if __name__ == "__main__":
    raise SystemExit(main())
