"""Machine: the AlterPartition requests of one broker (KIP-497). One request is in flight, with all proposals that wait.

Own rule: a proposal is sent once and never repeated. A repetition could be refused while the first copy is still on its
way, and the leader would then believe that the proposal can no longer be applied (decision 8). After any failure the
leader proposes again.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import NamedTuple

from mqcore.identity import BrokerId, TopicIdPartition
from mqcore.links.outcome import LinkFault
from mqcore.partitions.terms import AlterOutcome, Applied, NotApplied, Proposal, Unknown
from mqcore.wire.errors import ErrorCode

REFUSALS = frozenset({ErrorCode.INELIGIBLE_REPLICA, ErrorCode.OPERATION_NOT_ATTEMPTED})
"""The controller has read the proposal and refused it. Every other error leaves open what has happened: even
NOT_CONTROLLER may come from a controller that lost leadership after it had written the change."""


@dataclass(frozen=True, slots=True, eq=False)
class AlterAsk:
    broker: BrokerId
    broker_epoch: int
    proposals: Mapping[TopicIdPartition, Proposal]


@dataclass(frozen=True, slots=True)
class AlterAnswer:
    """What each proposal led to; `error` is about the request as a whole."""

    partitions: Mapping[TopicIdPartition, Applied | ErrorCode]
    error: ErrorCode = ErrorCode.NONE


class Settled(NamedTuple):
    partition: TopicIdPartition
    proposal: Proposal
    outcome: AlterOutcome


class AlterPartitions:
    def __init__(self, me: BrokerId) -> None:
        self._me = me
        self._waiting: dict[TopicIdPartition, Proposal] = {}
        self._open: AlterAsk | None = None

    def propose(self, partition: TopicIdPartition, proposal: Proposal) -> None:
        """Send it with the next request. It replaces one of an earlier term that has not been sent."""
        self._waiting[partition] = proposal

    def withdraw(self, partition: TopicIdPartition) -> None:
        """This broker no longer leads the partition, so what has not been sent never will be."""
        self._waiting.pop(partition, None)

    def request(self, broker_epoch: int) -> AlterAsk | None:
        """The next request, or None if one is in flight or nothing waits."""
        if self._open is not None or not self._waiting:
            return None
        self._open = AlterAsk(self._me, broker_epoch, self._waiting)
        self._waiting = {}
        return self._open

    def answered(self, ask: AlterAsk, answer: AlterAnswer | LinkFault) -> list[Settled]:
        """What the proposals of the request led to. Empty for a request that is no longer open."""
        if ask is not self._open:
            return []
        self._open = None
        return [
            Settled(partition, proposal, _outcome(partition, answer)) for partition, proposal in ask.proposals.items()
        ]


def _outcome(partition: TopicIdPartition, answer: AlterAnswer | LinkFault) -> AlterOutcome:
    if isinstance(answer, LinkFault) or answer.error is not ErrorCode.NONE:
        return Unknown()
    result = answer.partitions.get(partition)
    if isinstance(result, Applied):
        return result
    return NotApplied() if result in REFUSALS else Unknown()
