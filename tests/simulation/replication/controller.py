"""A model of the controller: registrations, fencing, elections from the ISR, and AlterPartition as compare-and-set.

It is one object that never forgets, in place of a quorum. The brokers know only its five requests and its images, so
the real controller can take its place. It reads requests late when its node is paused.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import NamedTuple

from mqcore.identity import BrokerId, LeaderEpoch, Millis, TopicIdPartition, TopicPartition
from mqcore.partitions.terms import NO_BROKER_EPOCH, NO_LEADER, Applied, Proposal, Term
from mqcore.replication.altering import AlterAnswer, AlterAsk
from mqcore.wire.errors import ErrorCode


class Register(NamedTuple):
    broker: BrokerId
    life: int


class Heartbeat(NamedTuple):
    broker: BrokerId
    broker_epoch: int


class Registered(NamedTuple):
    broker_epoch: int


@dataclass
class Registration:
    broker_epoch: int
    life: int
    beat_at: Millis
    is_fenced: bool = True


@dataclass(frozen=True)
class Image:
    """What the metadata say at one moment. A higher version is a later one."""

    version: int
    terms: Mapping[TopicIdPartition, Term]
    broker_epochs: Mapping[BrokerId, int]  # of brokers that are not fenced
    names: Mapping[TopicIdPartition, TopicPartition] = field(default_factory=dict)


@dataclass
class ControllerModel:
    session_ms: int
    allows_unclean: bool = False
    version: int = 0
    terms: dict[TopicIdPartition, Term] = field(default_factory=dict)
    names: dict[TopicIdPartition, TopicPartition] = field(default_factory=dict)
    brokers: dict[BrokerId, Registration] = field(default_factory=dict)
    image: Image = field(init=False)

    def __post_init__(self) -> None:
        self._changed()

    def create(
        self, partition: TopicIdPartition, name: TopicPartition, replicas: tuple[BrokerId, ...], min_isr: int
    ) -> None:
        self.names[partition] = name
        self.terms[partition] = Term(NO_LEADER, LeaderEpoch(0), 0, replicas, frozenset(replicas), min_isr)
        self._elect_all()

    def delete(self, partition: TopicIdPartition) -> Term:
        del self.names[partition]
        term = self.terms.pop(partition)
        self._changed()
        return term

    def register(self, request: Register, now: Millis) -> Registered | None:
        """None for a late request of an earlier life. The old registration is fenced before the new one counts."""
        known = self.brokers.get(request.broker)
        if known is not None and request.life <= known.life:
            return Registered(known.broker_epoch) if request.life == known.life else None
        if known is not None:
            self._fence(request.broker)
        self.version += 1
        self.brokers[request.broker] = Registration(self.version, request.life, now)
        self._changed()
        return Registered(self.brokers[request.broker].broker_epoch)

    def heartbeat(self, request: Heartbeat, now: Millis) -> bool:
        """False if the broker has to register again."""
        known = self.brokers.get(request.broker)
        if known is None or known.broker_epoch != request.broker_epoch:
            return False
        known.beat_at = now
        if known.is_fenced:
            known.is_fenced = False
            self._elect_all()
        return True

    def tick(self, now: Millis) -> None:
        for broker, known in sorted(self.brokers.items()):
            if not known.is_fenced and now - known.beat_at > self.session_ms:
                self._fence(broker)

    # ── elections ────────────────────────────────────────────────────────────────────────────────

    def _fence(self, broker: BrokerId) -> None:
        self.brokers[broker].is_fenced = True
        for partition, term in self.terms.items():
            left = term.isr - {broker}
            isr = left or term.isr  # the last member stays, because no other broker has everything
            if term.leader == broker:
                self._change(partition, isr, self._candidate(term, isr))
            elif isr != term.isr:
                self._change(partition, isr, term.leader)
        self._changed()

    def _elect_all(self) -> None:
        for partition, term in self.terms.items():
            if term.leader == NO_LEADER:
                leader = self._candidate(term, term.isr)
                if leader != NO_LEADER:
                    self._change(partition, term.isr, leader)
        self._changed()

    def move_leader(self, partition: TopicIdPartition, broker: BrokerId) -> None:
        """Elect another member of the ISR although the leader is well, as for a preferred leader."""
        term = self.terms[partition]
        if broker in term.isr and self._is_alive(broker) and term.leader not in (NO_LEADER, broker):
            self._change(partition, term.isr, broker)
            self._changed()

    def _candidate(self, term: Term, isr: frozenset[BrokerId]) -> BrokerId:
        alive = [broker for broker in term.replicas if self._is_alive(broker)]
        clean = [broker for broker in alive if broker in isr]
        choice = clean or (alive if self.allows_unclean else [])
        return choice[0] if choice else NO_LEADER

    def _is_alive(self, broker: BrokerId) -> bool:
        return broker in self.brokers and not self.brokers[broker].is_fenced

    def _change(self, partition: TopicIdPartition, isr: frozenset[BrokerId], leader: BrokerId) -> None:
        """Every change has a partition epoch of its own. A change of the leader, even to none, has a leader epoch."""
        term = self.terms[partition]
        if leader not in (NO_LEADER, *isr):
            isr = frozenset({leader})  # an unclean election: the new leader's log is the truth now
        leader_epoch = term.leader_epoch if leader == term.leader else LeaderEpoch(term.leader_epoch + 1)
        self.terms[partition] = replace(
            term, isr=isr, leader=leader, leader_epoch=leader_epoch, partition_epoch=term.partition_epoch + 1
        )

    def _changed(self) -> None:
        self.version += 1
        alive = {broker: known.broker_epoch for broker, known in self.brokers.items() if not known.is_fenced}
        self.image = Image(self.version, dict(self.terms), alive, dict(self.names))

    # ── AlterPartition ───────────────────────────────────────────────────────────────────────────

    def alter(self, ask: AlterAsk) -> AlterAnswer:
        if self.image.broker_epochs.get(ask.broker) != ask.broker_epoch:
            return AlterAnswer({}, ErrorCode.STALE_BROKER_EPOCH)
        answer = {partition: self._alter(ask.broker, partition, wanted) for partition, wanted in ask.proposals.items()}
        self._changed()
        return AlterAnswer(answer)

    def _alter(self, sender: BrokerId, partition: TopicIdPartition, wanted: Proposal) -> Applied | ErrorCode:
        term = self.terms.get(partition)
        if term is None:
            return ErrorCode.UNKNOWN_TOPIC_ID
        if term.leader != sender or term.leader_epoch != wanted.leader_epoch:
            return ErrorCode.FENCED_LEADER_EPOCH
        if not self._is_current(term, wanted):
            return ErrorCode.INVALID_UPDATE_VERSION
        if not all(self._is_eligible(broker, epoch) for broker, epoch in wanted.broker_epochs.items()):
            return ErrorCode.INELIGIBLE_REPLICA
        self._change(partition, wanted.isr, sender)  # even without a difference: see decision 8
        return Applied(wanted.isr, self.terms[partition].partition_epoch)

    def _is_current(self, term: Term, wanted: Proposal) -> bool:
        return term.partition_epoch == wanted.partition_epoch

    def _is_eligible(self, broker: BrokerId, broker_epoch: int) -> bool:
        """A member that the leader has not heard of in its term keeps its place, whatever its epoch."""
        return self._is_alive(broker) and broker_epoch in (NO_BROKER_EPOCH, self.brokers[broker].broker_epoch)
