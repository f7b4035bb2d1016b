"""Which replica a consumer is sent to."""

from __future__ import annotations

import pytest

from mqcore.identity import BrokerId
from mqcore.replication.nearest import nearest_replica
from tests.unit.mqcore.partitions.replicas import ONE, THREE, TWO, LeaderHarness, term


@pytest.mark.parametrize(
    ("racks", "isr", "fetched", "nearest"),
    [
        ("abb", (ONE, TWO, THREE), {TWO: 5, THREE: 7}, THREE),  # it has more
        ("abb", (ONE, TWO, THREE), {TWO: 7, THREE: 7}, TWO),
        ("abb", (ONE, TWO), {TWO: 5, THREE: 7}, TWO),  # 3 is not in sync
        ("abb", (ONE, TWO, THREE), {TWO: 2, THREE: 2}, ONE),  # neither has the offset
        ("abb", (ONE, TWO, THREE), {}, ONE),  # nothing is known of them in this term
        ("bbb", (ONE, TWO, THREE), {TWO: 7, THREE: 7}, ONE),  # the leader is in the rack, too
        ("aaa", (ONE, TWO, THREE), {TWO: 7, THREE: 7}, ONE),
    ],
)
def test_the_nearest_replica_is_in_the_rack_in_sync_and_has_the_offset(
    racks: str, isr: tuple[BrokerId, ...], fetched: dict[BrokerId, int], nearest: BrokerId
) -> None:
    leader = LeaderHarness(term(*isr))
    leader.append(7)
    for broker, end in fetched.items():
        leader.fetched(broker, end)
    of = dict(zip((ONE, TWO, THREE), racks, strict=True))
    assert nearest_replica(leader.state, ONE, 3, "b", of) == nearest
