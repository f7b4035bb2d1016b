"""Puts every seeded bug into the broker, one at a time, and says what finds it.

python -m tests.simulation.seeded_bugs                                            prints the table
python -m tests.simulation.seeded_bugs --markdown docs/generated/seeded-bugs.md   writes the page (3 minutes)
python -m tests.simulation.seeded_bugs --only M3 M25                              these only

A bug is found by random histories, or by a scenario that leads to it message by message. The command fails if one is
not found.
"""

from __future__ import annotations

import argparse
import logging
import re
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, redirect_stdout
from importlib import import_module
from io import StringIO
from pathlib import Path
from typing import NamedTuple
from unittest.mock import patch

import pytest

from tests.simulation.controller import seeded_bugs as controller
from tests.simulation.controller.controller_world import run_history as run_controller
from tests.simulation.groups import seeded_bugs as coordinators
from tests.simulation.raft import seeded_bugs as raft
from tests.simulation.raft.history import HistoryFailed
from tests.simulation.raft.history import run_history as run_raft
from tests.simulation.raft.node import Node
from tests.simulation.replication import seeded_bugs as replication
from tests.simulation.replication.bench import Bench
from tests.simulation.replication.history_run import run_history as run_replication
from tests.simulation.replication.scenarios import SCENARIOS

HISTORIES_MAX = 3000
NOT_FOUND = "not found"
LEFT_OUT = (
    "M8, M10, M11 and M22 are not here: they are bugs of eligible leader replicas (KIP-966) and of the use of the "
    "machine's boot id, which this broker does not have. M37 to M42 are about transactions and share groups."
)


class Bug(NamedTuple):
    name: str
    part: str
    what: str
    find: Callable[[], str]
    """Puts it in and returns what has found it, or `NOT_FOUND`."""


def all_bugs() -> list[Bug]:
    found = [*_replication(), *_raft(), *_controller(), *_coordinators()]
    return sorted(found, key=lambda bug: (bug.name[0] != "M", int(re.sub(r"\D", "", bug.name)), bug.name, bug.part))


def _histories(has_failed: Callable[[int], bool]) -> str:
    for seed in range(HISTORIES_MAX):
        if has_failed(seed):
            return f"random histories, after {seed + 1}"
    return NOT_FOUND


def _fails(run: Callable[[], object]) -> bool:
    try:
        run()
    except AssertionError:
        return True
    return False


def _replication() -> Iterator[Bug]:
    def find(bug: replication.SeededBug) -> str:
        scenario = bug.scenario
        if scenario is None:
            return _histories(lambda seed: _fails(lambda: run_replication(seed, bug.setup)))
        return scenario if _fails(lambda: SCENARIOS[scenario](Bench(bug.setup))) else NOT_FOUND

    for bug in replication.SEEDED_BUGS:
        yield Bug(bug.name, "replication", bug.what, lambda bug=bug: find(bug))  # type: ignore[misc]


def _raft() -> Iterator[Bug]:
    def find(bug: raft.SeededBug) -> str:
        with raft.planted(bug) as node:
            if bug.seed is not None:
                return _histories(lambda seed: _fails_raft(seed, node))
            file, _, test = bug.killed_by.partition("::")
            (path,) = Path("tests").rglob(file)
            module = import_module(".".join(path.with_suffix("").parts))
            with ExitStack() as patches:
                if hasattr(module, "Node"):
                    patches.enter_context(patch.object(module, "Node", node))
                return test if _pytest_fails(f"{path}::{test}") else NOT_FOUND

    for bug in raft.BUGS:
        yield Bug(bug.name, "metadata quorum", bug.breaks, lambda bug=bug: find(bug))  # type: ignore[misc]


def _fails_raft(seed: int, node: type[Node]) -> bool:
    try:
        run_raft(seed, node)
    except HistoryFailed:
        return True
    return False


def _pytest_fails(test: str) -> bool:
    with redirect_stdout(StringIO()):
        return pytest.main(["-q", "-p", "no:cacheprovider", "-W", "ignore", test]) == pytest.ExitCode.TESTS_FAILED


def _controller() -> Iterator[Bug]:
    def find(bug: controller.SeededBug) -> str:
        directed = None if bug.directed is None else bug.directed()
        with pytest.MonkeyPatch.context() as patches:
            bug.put_in(patches)
            if directed is None:
                return _histories(lambda seed: bool(run_controller(seed).violations))
            test, arguments = directed
            return test.__name__ if _fails(lambda: test(*arguments)) else NOT_FOUND

    for bug in controller.BUGS:
        yield Bug(bug.name, "controller", bug.broken, lambda bug=bug: find(bug))  # type: ignore[misc]


def _coordinators() -> Iterator[Bug]:
    def find(bug: coordinators.SeededBug) -> str:
        with coordinators.put_in(bug):
            return bug.test.__name__ if _fails(lambda: bug.test(*bug.arguments)) else NOT_FOUND

    for bug in coordinators.SEEDED_BUGS:
        yield Bug(bug.name, "coordinators", bug.what, lambda bug=bug: find(bug))  # type: ignore[misc]


def page(rows: Sequence[tuple[Bug, str]]) -> str:
    lines = [f"| {bug.name} | {bug.part} | {bug.what} | {_readable(how)} |" for bug, how in rows]
    found = sum(how != NOT_FOUND for _, how in rows)
    return "\n".join(
        [
            "# Seeded bugs",
            "",
            "Written by `python -m tests.simulation.seeded_bugs --markdown FILE`: each bug is put into the broker, and "
            "then the histories with seeds 0, 1, 2 … run, or the one test that leads to it. "
            "[simulations.md](../simulations.md) explains both.",
            "",
            f"{found} of {len(rows)} bugs are found. {LEFT_OUT}",
            "",
            "| bug | in | what is wrong | found by |",
            "|---|---|---|---|",
            *lines,
            "",
        ]
    )


def _readable(how: str) -> str:
    return how if " " in how else f"`{how}`"


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.simulation.seeded_bugs")
    parser.add_argument("--markdown", type=Path, help="write the page to this file")
    parser.add_argument("--only", nargs="+", metavar="BUG", help="only these bugs")
    chosen = parser.parse_args()
    logging.getLogger("mqcore").addHandler(logging.NullHandler())
    rows = []
    for bug in all_bugs():
        if chosen.only and bug.name not in chosen.only:
            continue
        how = bug.find()
        rows.append((bug, how))
        print(f"{bug.name:5} {bug.part:16} {bug.what}: {how}", flush=True)
    if chosen.markdown is not None:
        chosen.markdown.write_text(page(rows), encoding="utf-8")
    return int(any(how == NOT_FOUND for _, how in rows))


if __name__ == "__main__":
    raise SystemExit(main())
