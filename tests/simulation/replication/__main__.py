"""Run histories or one scenario, and print what they show.

python -m tests.simulation.replication s1 --bug M1     a scenario step by step, here with a seeded bug
python -m tests.simulation.replication 17              one seed, with its troubles
python -m tests.simulation.replication 0:1000          a range; stops at the first failure
python -m tests.simulation.replication 0:3000 --bug M4 how many histories it takes to find a seeded bug
"""

from __future__ import annotations

import argparse
import time

from tests.simulation.replication.history_run import planned_troubles, run_history
from tests.simulation.replication.scenarios import SCENARIOS
from tests.simulation.replication.seeded_bugs import SEEDED_BUGS, SeededBug
from tests.simulation.replication.setup import Setup
from tests.simulation.replication.told import tell
from tests.simulation.replication.world import World

PROGRESS_EVERY = 100


def run_or_report(seed: int, bug: SeededBug | None, count: int = 1) -> World:
    """Run one history. If it fails, say how to repeat it, and exit."""
    try:
        return run_history(seed, bug.setup if bug else None)
    except AssertionError as error:
        notes = "\n".join(getattr(error, "__notes__", ()))
        print(f"history {count}, seed {seed}: {error}", f"{notes}{f' --bug {bug.name}' if bug else ''}", sep="\n")
        raise SystemExit(1) from None


def run_range(first: int, last: int, bug: SeededBug | None) -> None:
    started = time.process_time()
    events = elections = 0
    for count, seed in enumerate(range(first, last), 1):
        world = run_or_report(seed, bug, count)
        events += world.events.count
        elections += world.elections
        if count % PROGRESS_EVERY == 0 or seed + 1 == last:
            seconds = time.process_time() - started
            print(f"{count} histories hold: {events} events, {elections} elections, {seconds:.0f} s of CPU", flush=True)


def run_one(seed: int, bug: SeededBug | None) -> None:
    for trouble in planned_troubles(World(seed, bug.setup if bug else None)):
        print(trouble)
    world = run_or_report(seed, bug)
    committed = sum(truth.end for truth in world.truth.partitions.values())
    print(f"seed {seed}: {world.events.count} events, {world.elections} elections, {committed} records, ", end="")
    print(f"trace {world.events.trace_hash}")


def print_bugs() -> None:
    for bug in SEEDED_BUGS:
        print(f"{bug.name:5} {bug.what:60} {bug.scenario or 'random histories'}")


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m tests.simulation.replication")
    parser.add_argument("what", help="one seed, FIRST:LAST, a scenario such as s1, or the word bugs")
    parser.add_argument("--bug", choices=[bug.name for bug in SEEDED_BUGS], help="put this bug back")
    return parser


def main() -> None:
    parser = _parser()
    arguments = parser.parse_args()
    if arguments.what == "bugs":
        print_bugs()
        return
    bug = next((bug for bug in SEEDED_BUGS if bug.name == arguments.bug), None)
    scenario = next((name for name in SCENARIOS if f"{name}_".startswith(f"{arguments.what}_")), None)
    if scenario is not None:
        print(f"{scenario.replace('_', ' ')}\n")
        raise SystemExit(0 if tell(SCENARIOS[scenario], bug.setup if bug else Setup()) else 1)
    first, _, last = arguments.what.partition(":")
    if not first.isdecimal():
        parser.error(f"no scenario is called {arguments.what}")
    if last:
        run_range(int(first), int(last), bug)
    else:
        run_one(int(first), bug)


if __name__ == "__main__":
    main()
