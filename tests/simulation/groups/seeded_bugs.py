"""Bugs of coordinators and of the quorum's shell, put back one at a time. Each names the test that must fail then."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, NamedTuple
from unittest.mock import patch

from mqcore.coordination.partition_journal import PartitionJournal
from mqcore.groups import offsets
from mqcore.groups.coordinator import GroupCoordinator
from mqcore.partitions.replica import Replica
from mqcore.partitions.waiting_requests import COMMITTED, OnCommit
from mqcore.raft.voter import Voter
from tests.unit.mqcore.groups import test_coordinator, test_coordinator_terms, test_offsets
from tests.unit.mqcore.raft import test_quorum_alone


class SeededBug(NamedTuple):
    name: str
    what: str
    owner: object
    function: str
    by: Callable[..., Any]
    test: Callable[..., None]
    arguments: tuple[object, ...] = ()


def _at_once(replica: Replica, on_known: OnCommit) -> None:
    on_known(COMMITTED)


def _answered_at_once(journal: PartitionJournal[Any], end: int, on_commit: OnCommit) -> None:
    on_commit(COMMITTED)


SEEDED_BUGS = (
    SeededBug(
        "M33b",
        "a batch of the controller is written while another one is not durable",
        Voter,
        "may_append",
        lambda voter, log: True,
        test_quorum_alone.test_what_is_appended_during_a_sync_becomes_one_batch_at_the_promised_offsets,
    ),
    SeededBug(
        "M34",
        "groups are read from a tail that is not committed",
        Replica,
        "when_committed_end_known",
        _at_once,
        test_coordinator_terms.test_groups_are_loading_until_the_leader_knows_the_committed_end,
    ),
    SeededBug(
        "M34b",
        "a commit is answered before the in-sync replicas have it",
        PartitionJournal,
        "when_committed",
        _answered_at_once,
        test_coordinator_terms.test_the_answer_to_a_command_waits_for_the_in_sync_replicas,
    ),
    SeededBug(
        "M35",
        "groups go on loading after another broker has taken them over",
        GroupCoordinator,
        "resign",
        lambda coordinator, index: None,
        test_coordinator.test_loading_stops_when_the_partition_moves,
    ),
    SeededBug(
        "M36",
        "a member of an earlier generation commits",
        offsets,
        "generation_error",
        lambda state, member_id, instance_id, generation: None,
        test_offsets.test_a_commit_of_another_generation_is_rejected,
        (0,),
    ),
)


@contextmanager
def put_in(bug: SeededBug) -> Iterator[None]:
    with patch.object(bug.owner, bug.function, bug.by):
        yield
