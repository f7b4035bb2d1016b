"""A controller with several brokers that register, send heartbeats, fail and come back, as a test tells them."""

from __future__ import annotations

from dataclasses import dataclass
from uuid import UUID

from mqcore.controller.cluster_commands import (
    Activate,
    AlteredPartition,
    AlteredPartitions,
    AlterPartition,
    Election,
    ElectLeaders,
    Heartbeat,
    HeartbeatAnswer,
    IsrProposal,
    Reassign,
    Reassignment,
    RegisterBroker,
    Registered,
    new_incarnation,
)
from mqcore.controller.commands import ControllerAnswer, CreateTopics
from mqcore.controller.facts import Endpoint
from mqcore.controller.image import PartitionImage
from mqcore.controller.sessions import ControllerRules
from mqcore.coordination.decision import Tick
from mqcore.identity import BrokerId, LeaderEpoch, Offset
from mqcore.wire.errors import ErrorCode, Refusal
from tests.unit.mqcore.controller.cluster_driver import Cluster

EPOCH = 5
"""The leader epoch of the quorum in which the controller is active."""


@dataclass(frozen=True)
class Proposal:
    """AlterPartition for one partition; `changes` are fields of the request that differ from the leader's truth."""

    isr: tuple[int, ...]
    by: int | None = None
    broker_epoch: int | None = None
    leader_epoch: int | None = None
    partition_epoch: int | None = None
    member_epochs: tuple[int, ...] | None = None
    controller_epoch: int = EPOCH
    topic_id: UUID | None = None


class Brokers(Cluster):
    """Brokers 1 to `count` are active. `racks`: of broker 1, 2, …"""

    def __init__(self, count: int = 3, *racks: str, rules: ControllerRules | None = None) -> None:
        super().__init__(brokers=0, rules=rules)
        self._racks = dict(enumerate(racks, 1))
        self.starts: dict[int, int] = {}
        self.ask(Activate(EPOCH, Offset(100)))
        for broker in range(1, count + 1):
            self.start(broker)
            self.unfence(broker)

    # What brokers do

    def registration(
        self, broker: int, *, starts: int | None = None, folder: int | None = None, chance: int = 0
    ) -> RegisterBroker:
        number = self.starts.get(broker, 0) if starts is None else starts
        return RegisterBroker(
            BrokerId(broker),
            new_incarnation(number, UUID(int=broker + (chance << 32))),
            (Endpoint("PLAINTEXT", f"broker-{broker}", 9092),),
            self._racks.get(broker),
            (UUID(int=broker if folder is None else folder),),
        )

    def start(self, broker: int) -> int:
        """A new life of a broker registers; it is fenced. Returns its epoch."""
        self.starts[broker] = self.starts.get(broker, 0) + 1
        answer = self.ask(self.registration(broker))
        assert isinstance(answer, Registered)
        return answer.broker_epoch

    def unfence(self, *brokers: int) -> None:
        for broker in brokers:
            answer = self.heartbeat(broker)
            assert isinstance(answer, HeartbeatAnswer) and not answer.is_fenced

    def heartbeat(
        self, broker: int, epoch: int | None = None, applied: int | None = None, fence: bool = False, stop: bool = False
    ) -> ControllerAnswer:
        """By default of the present life of the broker, with all metadata applied."""
        known = self.epoch_of(broker) if epoch is None else epoch
        until = self.machine.sessions.next_offset if applied is None else applied
        return self.ask(Heartbeat(BrokerId(broker), known, Offset(until), fence, stop))

    def epoch_of(self, broker: int) -> int:
        return self.image.brokers[BrokerId(broker)].broker_epoch

    def fall_silent(self, *brokers: int) -> None:
        """The brokers send nothing until their sessions end; the others go on."""
        for _ in range(6):
            self.pass_time(1000)
            for broker in list(self.image.brokers.values()):
                if broker.broker not in brokers and not broker.fenced:
                    self.heartbeat(broker.broker)
            self.run_ticks()

    def pass_time(self, ms: int) -> None:
        self.clock.advance(ms)

    def run_ticks(self) -> None:
        """What the timer of the controller does now."""
        for _ in range(100):
            deadline = self.machine.deadline()
            if deadline is None or deadline > self.clock.monotonic_ms:
                return
            self.tick()
        raise AssertionError("the deadline does not move on")

    def tick(self) -> None:
        self.decide_and_apply(Tick())

    # Topics and partitions

    def topic_on(self, *assignment: tuple[int, ...], name: str = "orders", **configs: str) -> None:
        """A topic with one partition for each tuple of replicas. Underscores in names of settings stand for dots."""
        settings = {key.replace("_", "."): value for key, value in configs.items()}
        topic = self.topic(name, assignment=dict(enumerate(assignment)), configs=settings)
        assert self.errors(CreateTopics((topic,))) == [ErrorCode.NONE]

    def partition(self, index: int = 0, name: str = "orders") -> PartitionImage:
        return self.image.topics[name].partitions[index]

    def leader_and_isr(self, index: int = 0) -> tuple[int, tuple[int, ...]]:
        partition = self.partition(index)
        return partition.leader, partition.isr

    def alter(self, proposal: Proposal, index: int = 0) -> AlteredPartition | ErrorCode:
        """The leader of a partition proposes in-sync replicas."""
        topic, partition = self.image.topics["orders"], self.partition(index)
        by = partition.leader if proposal.by is None else BrokerId(proposal.by)
        known = self.image.brokers.get(by)
        epoch = known.broker_epoch if proposal.broker_epoch is None and known else proposal.broker_epoch
        members = tuple(map(BrokerId, proposal.isr))
        epochs = proposal.member_epochs or tuple(
            self.image.brokers[member].broker_epoch if member in self.image.brokers else 0 for member in members
        )
        asked = IsrProposal(
            proposal.topic_id or topic.id,
            index,
            partition.leader_epoch if proposal.leader_epoch is None else LeaderEpoch(proposal.leader_epoch),
            partition.partition_epoch if proposal.partition_epoch is None else proposal.partition_epoch,
            tuple(zip(members, epochs, strict=True)),
        )
        answer = self.ask(AlterPartition(by, epoch or 0, (asked,), proposal.controller_epoch))
        if isinstance(answer, Refusal):
            return answer.error
        assert isinstance(answer, AlteredPartitions)
        (outcome,) = answer.outcomes
        return outcome.error if isinstance(outcome, Refusal) else outcome

    def elect(self, election: Election, index: int = 0) -> ErrorCode:
        (error,) = self.errors(ElectLeaders(election, (("orders", index),)))
        return error

    def reassign(self, replicas: tuple[int, ...] | None, index: int = 0, may_change_factor: bool = True) -> ErrorCode:
        wanted = None if replicas is None else tuple(map(BrokerId, replicas))
        (error,) = self.errors(Reassign((Reassignment("orders", index, wanted),), may_change_factor))
        return error
