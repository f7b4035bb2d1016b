"""Bugs that are planted on purpose: what the quorum's rules prevent, and which test notices when a rule is missing.

A rule that can be removed without a failing test is not tested. Each entry replaces one small function of the machine,
of a store, or of the simulated shell. `python -m tests.simulation.raft.seeded_bugs` prints the table.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from functools import partial
from typing import Any, NamedTuple
from unittest.mock import patch

from mqcore.raft import electing, following, leading
from mqcore.raft.messages import SnapshotId, VoterSet
from mqcore.raft.quorum_file import QuorumFile
from mqcore.raft.quorum_log import FOLDER, QuorumLog
from mqcore.raft.ready import Ready
from mqcore.raft.snapshots import Snapshot
from mqcore.raft.state import Election
from mqcore.raft.view import View
from mqcore.wire.records import Record
from tests.simulation.raft.node import Node

SIMULATION = "test_quorum_simulation.py::test_the_simulation_finds_a_seeded_bug"
SCENARIOS = "test_quorum_scenarios.py"
DISKS = "test_quorum_disks.py"
RULES = "test_voter_leading.py"


class Replacement(NamedTuple):
    owner: object
    function: str
    by: Callable[..., Any]


class SeededBug(NamedTuple):
    name: str
    breaks: str
    killed_by: str
    replacements: tuple[Replacement, ...] = ()
    node_class: type[Node] = Node
    seed: int | None = None
    """A history that fails with it, if the simulation kills it."""


class PersistsLater(Node):
    def open_file(self) -> QuorumFile:
        return LateFile(self)


class LateFile(QuorumFile):
    def __init__(self, node: Node) -> None:
        super().__init__(node.disk, str(FOLDER))
        self._node = node

    def write(self, election: Election) -> None:
        self._node.world.call_later(5, self._node, partial(self._write_late, election))

    def _write_late(self, election: Election) -> None:
        with self._node.running():
            super().write(election)


class AppliesUncommitted(Node):
    def committed_end(self) -> int:
        assert self.log is not None
        return self.log.end


def _stand_without_pre_vote(view: View) -> Ready:
    return electing.become_candidate(view) if electing.may_stand(view) else following.find_leader(view)


def _empty_voter_set_is_oneself(view: View) -> VoterSet:
    return view.log.voters or {view.me.id: view.me}


def drop_prefix_first(log: QuorumLog, end: int, records: Sequence[Record], now_ms: int) -> None:
    voters, snapshot = log.voters, SnapshotId(end, log.epoch_at(end - 1))
    log.drop_prefix(snapshot, now_ms)
    log.snapshots.write(Snapshot(snapshot, voters, records), now_ms)


def _always(*arguments: object) -> bool:
    return True


def _never(*arguments: object) -> None:
    return None


BUGS: tuple[SeededBug, ...] = (
    SeededBug(
        "M23",
        "the vote is persisted after the answer has left",
        f"{SCENARIOS}::test_s25_a_voter_that_loses_power_never_votes_twice_in_an_epoch",
        node_class=PersistsLater,
    ),
    SeededBug(
        "M24",
        "a leader commits a record of an older epoch by counting replicas",
        f"{RULES}::test_s26_a_record_of_an_old_epoch_is_committed_only_with_one_of_the_new_epoch",
        (Replacement(leading, "is_own_epoch", _always),),
    ),
    SeededBug(
        "M25",
        "a follower fetches on, and so acknowledges, before its append is synced",
        SIMULATION,
        (Replacement(following, "may_fetch", _always),),
        seed=0,
    ),
    SeededBug(
        "M26",
        "the leader counts its own records before they are synced",
        SIMULATION,
        (Replacement(leading, "own_end", lambda log: log.end),),
        seed=0,
    ),
    SeededBug(
        "M27",
        "a voter stands for election without asking for pre-votes",
        f"{SCENARIOS}::test_s28_a_voter_that_was_cut_off_does_not_depose_a_healthy_leader",
        (Replacement(electing, "start_election", _stand_without_pre_vote),),
    ),
    SeededBug(
        "M28",
        "a leader that hears no majority remains leader",
        f"{SCENARIOS}::test_s27_a_leader_that_is_cut_off_resigns",
        (Replacement(leading, "quorum_deadline", _never),),
    ),
    SeededBug(
        "M29",
        "a voter with an empty folder stands for election",
        SIMULATION,
        (Replacement(electing, "voters_of", _empty_voter_set_is_oneself),),
        seed=0,
    ),
    SeededBug(
        "M30",
        "a voter whose damaged log was cut votes and stands",
        f"{DISKS}::test_a_voter_whose_damaged_log_was_cut_does_not_vote_before_it_has_caught_up",
        (Replacement(electing, "is_trusted", _always),),
    ),
    SeededBug(
        "M31",
        "the log's prefix goes before the snapshot is durable",
        f"{SCENARIOS}::test_s29_a_crash_at_any_change_of_a_snapshot_loses_nothing",
        (Replacement(QuorumLog, "write_snapshot", drop_prefix_first),),
    ),
    SeededBug(
        "M32",
        "records are applied before they are committed",
        SIMULATION,
        node_class=AppliesUncommitted,
        seed=0,
    ),
    SeededBug(
        "M33",
        "a batch is appended while another one is not durable",
        SIMULATION,
        (Replacement(leading, "may_append", _always),),
        seed=0,
    ),
)


@contextmanager
def planted(bug: SeededBug) -> Iterator[type[Node]]:
    with ExitStack() as patches:
        for owner, function, by in bug.replacements:
            patches.enter_context(patch.object(owner, function, by))
        yield bug.node_class


def table() -> str:
    rows = [f"| {bug.name} | {bug.breaks} | `{bug.killed_by}` |" for bug in BUGS]
    return "\n".join(["| bug | what is broken | what fails |", "|---|---|---|", *rows])


if __name__ == "__main__":
    print(table())
