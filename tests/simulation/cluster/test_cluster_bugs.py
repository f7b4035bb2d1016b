"""Whole brokers with a seeded bug: each of the clients, and each check of the brokers, notices something."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple
from unittest.mock import patch

import pytest

from mqcore.groups.shard import GroupShard
from mqcore.partitions.replica import Replica
from mqcore.partitions.waiting_requests import Acknowledgements
from tests.simulation.cluster.checks import ClusterChecks
from tests.simulation.cluster.history import run_one

release = Acknowledgements.release


class SeededBug(NamedTuple):
    what: str
    owner: type
    function: str
    by: Any
    seed: int
    noticed: str


BUGS = (
    SeededBug(
        "acks=all is answered before the record is replicated",
        Acknowledgements,
        "release",
        lambda waiting, local_end, high_watermark: release(waiting, local_end, local_end),
        0,
        "the reader has seen every acknowledged record",
    ),
    SeededBug(
        "a new leader reports an end before it knows the committed one",
        Replica,
        "knows_committed_end",
        property(lambda replica: True),
        39,
        "partition 0 ends at",
    ),
    SeededBug(
        "a coordinator loads nothing",
        GroupShard,
        "_apply_record",
        lambda shard, record: None,
        1,
        "0 is committed, not",
    ),
)


@pytest.mark.parametrize("bug", BUGS, ids=lambda bug: bug.what)
def test_a_history_of_whole_brokers_finds_a_seeded_bug(bug: SeededBug) -> None:
    with patch.object(bug.owner, bug.function, bug.by), pytest.raises(AssertionError, match=bug.noticed):
        run_one(bug.seed)


def spoil_controllers(checks: ClusterChecks) -> None:
    checks.controllers.update(dict.fromkeys(range(1000), 9))


def spoil_committed(checks: ClusterChecks) -> None:
    checks.committed[0] = (0, 0)


@pytest.mark.parametrize(
    ("spoil", "noticed"),
    [(spoil_controllers, "are controllers in epoch"), (spoil_committed, "other committed metadata")],
)
def test_the_checks_notice_a_second_controller_and_other_metadata(
    spoil: Callable[[ClusterChecks], None], noticed: str
) -> None:
    class Spoiled(ClusterChecks):
        def __init__(self) -> None:
            super().__init__()
            spoil(self)

    with patch("tests.simulation.cluster.world.ClusterChecks", Spoiled), pytest.raises(AssertionError, match=noticed):
        run_one(1)
