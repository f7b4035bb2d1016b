"""A broker of the simulation: the real lifecycle and image, and a small model of leaders, followers and their logs.

A log is a list of numbers, each written once. A leader counts a record as committed when all in-sync replicas have it,
those of an open proposal included; that is what the controller's decisions must never contradict.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from random import Random
from typing import TYPE_CHECKING
from uuid import UUID

from mqcore.controller.cluster_commands import (
    AlteredPartition,
    AlteredPartitions,
    AlterPartition,
    IsrProposal,
    RegisterBroker,
    new_incarnation,
)
from mqcore.controller.facts import BrokerRegistered
from mqcore.controller.image import ClusterImage, PartitionImage, TopicImage
from mqcore.controller.lifecycle import BrokerLifecycle, LifecycleRules, Phase, Request, Unreachable
from mqcore.controller.setting_layers import effective_settings
from mqcore.identity import BrokerId, LeaderEpoch, Millis, Offset
from mqcore.wire.errors import ErrorCode, Refusal

if TYPE_CHECKING:
    from tests.simulation.controller.controller_world import ControllerWorld, Reply

Key = tuple[UUID, int]

LAG_MS = 2_000
REQUEST_TIMEOUT_MS = 1_000


@dataclass
class Follower:
    end: int
    broker_epoch: int
    heard_ms: int


@dataclass
class Leader:
    """What a leader believes in one leader epoch."""

    epoch: LeaderEpoch
    partition_epoch: int
    isr: tuple[BrokerId, ...]
    start: int
    since_ms: int
    high_watermark: int = 0
    followers: dict[BrokerId, Follower] = field(default_factory=dict)
    proposal: tuple[tuple[BrokerId, int], ...] | None = None
    sent_ms: int | None = None

    def maximal_isr(self) -> set[BrokerId]:
        return set(self.isr) | {member for member, _ in self.proposal or ()}


class SimBroker:
    def __init__(self, world: ControllerWorld, broker: int, random: Random) -> None:
        self.id = BrokerId(broker)
        self.logs: dict[Key, list[int]] = {}
        self.leaders: dict[Key, Leader] = {}
        self.image = ClusterImage()
        self.applied = Offset(0)
        self.life = 0
        self.is_running = False
        self.is_cut_off = False  # from the controllers
        self.lost_disk = False  # until its next registration
        self.file = {"min.insync.replicas": random.choice(["1", "2"])} if random.random() < 0.5 else {}
        self.lifecycle: BrokerLifecycle
        self._world = world
        self._random = random
        self._starts = 0
        self._folder = UUID(int=broker)
        self._request: tuple[Request, int] | None = None
        self._logs_are_open = False

    # Life

    def start(self) -> None:
        self._starts += 1
        self.life += 1
        self.is_running = True
        self.image, self.applied, self.leaders = ClusterImage(), Offset(0), {}
        registration = RegisterBroker(
            self.id,
            new_incarnation(self._starts, UUID(int=self._random.getrandbits(64))),
            (),
            None,
            (self._folder,),
        )
        self.lifecycle = BrokerLifecycle(registration, LifecycleRules(), Millis(self._world.now))
        self._request = None
        self._logs_are_open = False

    def kill(self) -> None:
        self.is_running = False
        self.leaders = {}

    def lose_disk(self) -> None:
        """A new folder with a new identity, which counts its starts from the beginning."""
        assert not self.is_running
        self.logs, self._starts = {}, 0
        self._folder = UUID(int=self._random.getrandbits(100))
        self.lost_disk = True

    def shut_down(self) -> None:
        self.lifecycle.shut_down(Millis(self._world.now))

    # One step

    def step(self) -> None:
        self._apply_metadata()
        if self.lifecycle.phase is Phase.ENDED:
            self.kill()
            return
        self._exchange()
        for key, leader in list(self.leaders.items()):
            self._lead(key, leader)

    def _apply_metadata(self) -> None:
        behind = len(self._world.log) - self.applied
        if not self.is_cut_off and self._random.random() < 0.7:
            self._apply(behind if self._random.random() < 0.7 else self._random.randint(0, behind))
        self._put_strays_aside()
        self._follow_metadata()

    def _apply(self, count: int) -> None:
        for fact in self._world.log[self.applied : self.applied + count]:
            self.image.apply(fact)
        self.applied = Offset(self.applied + count)

    def _put_strays_aside(self) -> None:
        """Once, before the broker says that its logs are open."""
        if self._logs_are_open or not self.lifecycle.knows_its_replicas(self.applied):
            return
        assigned = {(topic.id, part.index) for topic, part in self.image.partitions() if self.id in part.replicas}
        self.logs = {key: entries for key, entries in self.logs.items() if key in assigned}
        self._logs_are_open = True
        self.lifecycle.logs_opened(Millis(self._world.now))

    def _follow_metadata(self) -> None:
        led: dict[Key, Leader] = {}
        for topic, partition in self.image.partitions():
            if partition.leader == self.id and self._logs_are_open:
                key = (topic.id, partition.index)
                led[key] = self._leader(key, partition)
        self.leaders = led

    def _leader(self, key: Key, partition: PartitionImage) -> Leader:
        known = self.leaders.get(key)
        if known is None or known.epoch != partition.leader_epoch:
            start = len(self.logs.setdefault(key, []))
            return Leader(partition.leader_epoch, partition.partition_epoch, partition.isr, start, self._world.now)
        if partition.partition_epoch > known.partition_epoch:
            known.isr, known.partition_epoch = partition.isr, partition.partition_epoch
            known.proposal = known.sent_ms = None
        return known

    def _exchange(self) -> None:
        now = Millis(self._world.now)
        if self._request is not None and now - self._request[1] > REQUEST_TIMEOUT_MS:
            request, self._request = self._request[0], None
            self.lifecycle.answered(request, Unreachable(), now)
        due = self.lifecycle.next_request(self.applied, now)
        if due is None:
            return
        self._request = due, now
        life = self.life

        def answered(answer: Reply) -> None:
            if self.life == life and self.is_running:
                self._request = None if self._request is not None and self._request[0] is due else self._request
                assert not isinstance(answer, AlteredPartitions)
                self.lifecycle.answered(due, answer, Millis(self._world.now))

        self._world.send(self, due, answered)

    # Leading

    def _lead(self, key: Key, leader: Leader) -> None:
        topic = self.image.topics_by_id[key[0]]
        self._append(key, leader, topic)
        self._replicate(key, leader, topic)
        self._advance(key, leader)
        self._propose(key, leader, topic)

    def _append(self, key: Key, leader: Leader, topic: TopicImage) -> None:
        """A write with acks=all is accepted only by enough in-sync replicas."""
        settings = effective_settings(topic.configs, self.image, self.id, self.file)
        factor = len(topic.partitions[key[1]].replicas)
        needed = min(int(settings.get("min.insync.replicas", "1")), factor)
        if len(leader.isr) >= needed and self._random.random() < 0.3:
            self._world.properties.check_write(self, key, leader)
            self.logs[key].append(self._world.new_number())

    def _replicate(self, key: Key, leader: Leader, topic: TopicImage) -> None:
        """Followers that know this leader epoch fetch: cut off what the leader does not have, then copy the rest."""
        for member in topic.partitions[key[1]].replicas:
            other = self._world.brokers[member]
            if other is self or not self._world.are_connected(self, other) or self._random.random() < 0.3:
                continue
            theirs = other.image.partition(*key)
            epoch = other.lifecycle.broker_epoch
            if theirs is None or theirs.leader_epoch != leader.epoch or member not in theirs.replicas or epoch is None:
                continue
            other.logs[key] = list(self.logs[key])
            leader.followers[member] = Follower(len(self.logs[key]), epoch, self._world.now)

    def _advance(self, key: Key, leader: Leader) -> None:
        members = leader.maximal_isr()
        if not members - {self.id} <= set(leader.followers):
            return
        ends = [leader.followers[member].end for member in members if member != self.id]
        committed = min([len(self.logs[key]), *ends])
        if committed > leader.high_watermark and committed >= leader.start:
            leader.high_watermark = committed
            self._world.properties.committed_by(self, key, leader)

    def _propose(self, key: Key, leader: Leader, topic: TopicImage) -> None:
        now = self._world.now
        if leader.sent_ms is not None and now - leader.sent_ms < REQUEST_TIMEOUT_MS:
            return
        if leader.proposal is None:
            leader.proposal = self._wanted_isr(leader, topic.partitions[key[1]])
            if leader.proposal is None:
                return
        leader.sent_ms = now
        proposal = IsrProposal(*key, leader.epoch, leader.partition_epoch, leader.proposal)
        known = self.lifecycle.broker_epoch
        if known is None:
            return
        command = AlterPartition(self.id, known, (proposal,), self._world.epoch)
        life = self.life
        self._world.send(self, command, lambda answer: self._altered(life, key, proposal, answer))

    def _wanted_isr(self, leader: Leader, partition: PartitionImage) -> tuple[tuple[BrokerId, int], ...] | None:
        now, wanted = self._world.now, [(self.id, self.lifecycle.broker_epoch or 0)]
        for member in partition.replicas:
            known = leader.followers.get(member)
            registered = self.image.brokers.get(member)
            if member == self.id:
                continue
            if member in leader.isr:
                if now - (known.heard_ms if known else leader.since_ms) < LAG_MS:
                    wanted.append((member, registered.broker_epoch if registered else -1))
            elif known and registered and self._may_join(leader, known, registered) and now - known.heard_ms < 500:
                wanted.append((member, known.broker_epoch))
        return None if {member for member, _ in wanted} == set(leader.isr) else tuple(wanted)

    def _may_join(self, leader: Leader, known: Follower, registered: BrokerRegistered) -> bool:
        is_this_life = registered.is_active and known.broker_epoch == registered.broker_epoch
        return is_this_life and known.end >= max(leader.high_watermark, leader.start)

    def _altered(self, life: int, key: Key, proposal: IsrProposal, answer: Reply) -> None:
        leader = self.leaders.get(key)
        if self.life != life or leader is None or leader.proposal is not proposal.isr:
            return
        if not isinstance(answer, AlteredPartitions):
            return  # ask again: nobody knows what happened
        (outcome,) = answer.outcomes
        if isinstance(outcome, AlteredPartition):
            if outcome.leader_epoch == leader.epoch and outcome.partition_epoch >= leader.partition_epoch:
                leader.isr, leader.partition_epoch = outcome.isr, outcome.partition_epoch
                leader.proposal = leader.sent_ms = None
        elif isinstance(outcome, Refusal):
            is_certain = outcome.error is ErrorCode.INELIGIBLE_REPLICA  # the controller has not applied it
            if is_certain and proposal.partition_epoch == leader.partition_epoch:
                leader.proposal = leader.sent_ms = None
