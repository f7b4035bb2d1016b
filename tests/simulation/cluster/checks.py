"""What must hold at any time, judged by what the brokers have and not by what clients are told.

* Every machine keeps its own invariants.
* An epoch has one leader, in the metadata quorum and in each partition.
* Committed metadata are equal at equal offsets. The high watermark of a quorum never falls while its node runs.
"""

from __future__ import annotations

from typing import TYPE_CHECKING
from uuid import UUID

from mqcore.partitions.leader import LeaderState

if TYPE_CHECKING:
    from mqcore.broker import Broker
    from tests.simulation.cluster.nodes import SimNode


class ClusterChecks:
    def __init__(self) -> None:
        self.controllers: dict[int, int] = {}  # epoch → node
        self.leaders: dict[tuple[UUID, int, int], int] = {}  # topic id, partition, epoch → node
        self.committed: dict[int, tuple[int, int]] = {}  # base offset of a batch → epoch, CRC
        self._seen_to: dict[Broker, int] = {}

    @property
    def elections(self) -> int:
        return len(self.controllers) + len(self.leaders)

    def check(self, node: SimNode) -> None:
        broker = node.broker
        if broker is None or broker.quorum.is_offline:
            return
        self._check_quorum(node.number, broker)
        for partition in broker.partitions:
            if isinstance(partition.role, LeaderState) and not partition.is_offline:
                partition.role.check()
                key = partition.topic_id, partition.index, partition.leader_epoch
                first = self.leaders.setdefault(key, node.number)
                assert first == node.number, f"nodes {first} and {node.number} lead {partition.name} in {key[2]}"

    def _check_quorum(self, number: int, broker: Broker) -> None:
        quorum = broker.quorum
        quorum._voter.check(quorum._store)
        if quorum.leads:
            first = self.controllers.setdefault(quorum.epoch, number)
            assert first == number, f"nodes {first} and {number} are controllers in epoch {quorum.epoch}"
        seen_to, end = self._seen_to.get(broker, 0), quorum.high_watermark
        assert end >= seen_to, f"the metadata watermark of node {number} falls from {seen_to} to {end}"
        for header in quorum._store.headers(max(seen_to, quorum._store.start)):
            if header.next_offset > end:
                break
            batch = header.leader_epoch, header.crc
            first_batch = self.committed.setdefault(header.base_offset, batch)
            assert first_batch == batch, f"node {number} has other committed metadata at {header.base_offset}"
        self._seen_to[broker] = end
