"""What must hold of every history: after each decision of a controller, each write, and at the end.

* The image is valid, and equals what its records and a snapshot of it make.
* Partition epochs grow, and a leader epoch has one leader.
* A new leader was in sync, unless the topic allows an unclean election.
* In-sync replicas are a subset of what their leader counts on, and have every committed record.
* A broker epoch is the offset of its registration, and every unfenced broker would be missed.
"""

from __future__ import annotations

from typing import TYPE_CHECKING
from uuid import UUID

from mqcore.controller.cluster_commands import AlterPartition, RegisterBroker, Registered
from mqcore.controller.facts import BrokerRegistered
from mqcore.controller.image import ClusterImage, PartitionImage, TopicImage
from mqcore.controller.lifecycle import Phase
from mqcore.controller.records import decode, encode
from mqcore.controller.setting_layers import cluster_value
from tests.simulation.controller.sim_broker import Key, Leader, SimBroker
from tests.unit.mqcore.controller.random_commands import cluster_state
from tests.unit.mqcore.controller.test_snapshot import image_of

if TYPE_CHECKING:
    from tests.simulation.controller.controller_world import ControllerWorld


class Properties:
    def __init__(self, world: ControllerWorld) -> None:
        self.violations: list[str] = []
        self._world = world
        self._history: dict[Key, PartitionImage] = {}
        self._committed: dict[Key, list[int]] = {}
        self._may_lose: set[UUID] = set()

    def check_takeover(self) -> ClusterImage:
        """The log, and a snapshot of what it says, are what the last controller had. Returns the image of the log."""
        replayed = image_of(self._world.log)
        snapshot = image_of([decode(encode(fact)[1]) for fact in replayed.facts()])
        if not cluster_state(self._world.machine.image) == cluster_state(replayed) == cluster_state(snapshot):
            self.violations.append("a snapshot or the log does not make the image of the controller")
        return replayed

    def check(self, command: object) -> None:
        try:
            self._world.machine.check()
        except AssertionError as wrong:
            self.violations.append(f"{type(command).__name__}: {wrong}")
        unwatched = {each.broker for each in self._world.machine.image.brokers.values() if not each.fenced}
        unwatched -= self._world.machine.sessions.watched
        if unwatched:
            self.violations.append(f"nothing would fence brokers {unwatched} if they failed")
        if self._world.machine.sessions.next_offset != len(self._world.log):
            self.violations.append("the controller does not know the end of its log")
        present = {(topic.id, part.index): (topic, part) for topic, part in self._world.machine.image.partitions()}
        for key, (topic, partition) in present.items():
            if cluster_value(self._world.machine.image, topic.configs, "unclean.leader.election.enable") == "true":
                self._may_lose.add(topic.id)
            old = self._history.get(key)
            if partition != old:
                self._check_partition(command, key, topic, old, partition)
        self._history = {key: partition for key, (_, partition) in present.items()}

    def _check_partition(
        self, command: object, key: Key, topic: TopicImage, old: PartitionImage | None, new: PartitionImage
    ) -> None:
        where = f"{type(command).__name__}: {topic.name}-{key[1]}: {old} → {new}"
        if old is not None:
            if new.partition_epoch <= old.partition_epoch or new.leader_epoch < old.leader_epoch:
                self.violations.append(f"an epoch does not grow: {where}")
            if new.leader != old.leader and new.leader_epoch == old.leader_epoch:
                self.violations.append(f"two leaders in one epoch: {where}")
        if topic.id in self._may_lose:
            return
        if old is not None and new.has_leader and new.leader != old.leader:
            joining = new.isr if isinstance(command, AlterPartition) else ()  # it completes a reassignment
            if new.leader not in {*old.isr, *joining}:
                self.violations.append(f"the leader was not in sync: {where}")
        self._check_logs(key, new, where)

    def _check_logs(self, key: Key, partition: PartitionImage, where: str) -> None:
        committed = self._committed.get(key, [])
        for member in partition.isr:
            broker = self._world.brokers[member]
            if not broker.lost_disk and broker.logs.get(key, [])[: len(committed)] != committed:
                self.violations.append(f"broker {member} is in sync and lacks committed records: {where}")
        leader = self._world.brokers[partition.leader].leaders.get(key) if partition.has_leader else None
        is_present = leader is not None and leader.epoch == partition.leader_epoch
        if leader is not None and is_present and not set(partition.isr) <= leader.maximal_isr():
            self.violations.append(f"the leader does not count on {set(partition.isr)}: {where}")

    def check_write(self, broker: SimBroker, key: Key, leader: Leader) -> None:
        """A leader accepts a write by the cluster's min.insync.replicas, not by that of its own file."""
        topic = broker.image.topics_by_id[key[0]]
        needed = int(cluster_value(broker.image, topic.configs, "min.insync.replicas"))
        if len(leader.isr) < min(needed, len(topic.partitions[key[1]].replicas)):
            self.violations.append(f"broker {broker.id} accepts a write with {leader.isr}, {needed} are needed")

    def committed_by(self, broker: SimBroker, key: Key, leader: Leader) -> None:
        if key[0] in self._may_lose or key[0] not in self._world.machine.image.topics_by_id:
            return
        committed = self._committed.setdefault(key, [])
        entries = broker.logs[key][: leader.high_watermark]
        if entries[: len(committed)] != committed[: len(entries)]:
            self.violations.append(f"broker {broker.id} has lost committed records of {key[1]}")
        elif len(entries) > len(committed):
            self._committed[key] = entries

    def check_recovered(self) -> None:
        for broker in self._world.brokers.values():
            if not broker.is_running or broker.lifecycle.phase is not Phase.RUNNING or broker.lifecycle.is_fenced:
                self.violations.append(f"broker {broker.id} does not recover: {broker.lifecycle.phase}")
        for topic, partition in self._world.machine.image.partitions():
            if set(partition.isr) != set(partition.replicas) or not partition.has_leader or partition.is_reassigning:
                self.violations.append(f"{topic.name}-{partition.index} does not recover: {partition}")

    def check_registration(self, command: RegisterBroker, answer: Registered) -> None:
        record = self._world.log[answer.broker_epoch] if answer.broker_epoch < len(self._world.log) else None
        if not isinstance(record, BrokerRegistered) or record.broker != command.broker:
            self.violations.append(f"broker epoch {answer.broker_epoch} is not the offset of its registration")
        broker = self._world.brokers[command.broker]
        if broker.lifecycle._registration == command:
            broker.lost_disk = False
