"""Values: what the controller has decided about one partition, and what its leader proposes to change.

A *term* is the time from one election to the next; its number is the leader epoch. Within a term the partition epoch
counts every change of the ISR (in-sync replicas).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import NamedTuple

from mqcore.identity import BrokerId, LeaderEpoch, Offset

NO_LEADER = BrokerId(-1)
NO_BROKER_EPOCH = -1


@dataclass(frozen=True, slots=True)
class Term:
    """The committed state of a partition."""

    leader: BrokerId
    leader_epoch: LeaderEpoch
    partition_epoch: int
    replicas: tuple[BrokerId, ...]
    isr: frozenset[BrokerId]
    min_isr: int

    def __post_init__(self) -> None:
        assert self.isr, "the ISR keeps its last member"
        assert self.isr <= set(self.replicas)
        assert self.leader == NO_LEADER or self.leader in self.isr


def only_replica(me: BrokerId, leader_epoch: LeaderEpoch, min_isr: int = 1) -> Term:
    """The term of a partition that no other broker copies."""
    return Term(me, leader_epoch, 0, (me,), frozenset((me,)), min_isr)


@dataclass(frozen=True, slots=True, eq=False)
class Proposal:
    """An ISR that the leader asks the controller for. Two proposals with the same content are still two proposals."""

    leader_epoch: LeaderEpoch
    partition_epoch: int  # the one that this proposal wants to replace
    isr: frozenset[BrokerId]
    broker_epochs: Mapping[BrokerId, int]  # by which registration the leader knows each member (KIP-903)


@dataclass(frozen=True, slots=True)
class Applied:
    """The controller has committed the proposal."""

    isr: frozenset[BrokerId]
    partition_epoch: int


@dataclass(frozen=True, slots=True)
class NotApplied:
    """The controller has read this very request, and refused it. It can never be applied later."""


@dataclass(frozen=True, slots=True)
class Unknown:
    """The proposal may be committed, or may still be committed by a controller that reads it late."""


AlterOutcome = Applied | NotApplied | Unknown


class Moved(NamedTuple):
    """What a leader knows after an event. `proposal` has to be sent to the controller."""

    high_watermark: Offset
    low_watermark: Offset
    proposal: Proposal | None = None
