"""Shell: sends the proposals of this broker's leaders to the controller, and lets time pass for them.

A leader expels a follower that lags, so each needs a tick at its deadline. One timer serves all of them. It also runs
without a known deadline, because an append may make one: then a follower that does not fetch begins to lag.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Final

from mqcore.host import Clock, Timer
from mqcore.identity import BrokerId, Millis, TopicIdPartition
from mqcore.links.outcome import LinkFault
from mqcore.partitions.faults import contain_fault
from mqcore.partitions.hosted import HostedPartitions
from mqcore.partitions.leader import LeaderState
from mqcore.partitions.partition import Partition
from mqcore.partitions.terms import AlterOutcome, Moved, Proposal
from mqcore.replication.altering import AlterAnswer, AlterAsk, AlterPartitions

TICK_MS_MIN: Final = 50
"""Between two looks at all led partitions."""

Alter = Callable[[AlterAsk, Callable[[AlterAnswer | LinkFault], None]], None]
"""Sends a request to the controller. The callback is called exactly once."""


class AlterSender:
    def __init__(
        self,
        me: BrokerId,
        partitions: HostedPartitions,
        clock: Clock,
        broker_epoch: Callable[[], int],
        alter: Alter,
        lag_ms_max: int,
    ) -> None:
        self._partitions = partitions
        self._clock = clock
        self._broker_epoch = broker_epoch
        self._alter = alter
        self._lag_ms_max = lag_ms_max
        self._machine = AlterPartitions(me)
        self._proposed: dict[TopicIdPartition, tuple[Partition, Proposal]] = {}  # not sent yet
        self._is_scheduled = False
        self._timer: Timer | None = None
        self._is_closed = False
        partitions.on_proposal = self.propose

    def start(self) -> None:
        self._set_timer()

    def close(self) -> None:
        self._is_closed = True
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    # ── proposals ────────────────────────────────────────────────────────────────────────────────

    def propose(self, partition: Partition, proposal: Proposal) -> None:
        """Send it after this turn of the loop, together with the others of the turn."""
        key = TopicIdPartition(partition.topic_id, partition.index)
        self._machine.propose(key, proposal)
        self._proposed[key] = partition, proposal
        if not self._is_scheduled:
            self._is_scheduled = True
            self._clock.call_soon(self._send)

    def _send(self) -> None:
        self._is_scheduled = False
        for key, (partition, proposal) in self._proposed.items():
            if not partition.leads or partition.leader_epoch != proposal.leader_epoch:
                self._machine.withdraw(key)
        ask = None if self._is_closed else self._machine.request(self._broker_epoch())
        if ask is not None:
            self._proposed.clear()
            self._alter(ask, partial(self._on_answer, ask))

    def _on_answer(self, ask: AlterAsk, answer: AlterAnswer | LinkFault) -> None:
        now = self._clock.now().monotonic_ms
        for (topic_id, index), proposal, outcome in self._machine.answered(ask, answer):
            partition = self._partitions.by_id(topic_id, index)
            if partition is None or not partition.leads or partition.leader_epoch != proposal.leader_epoch:
                continue

            def settle(leader: LeaderState, proposal: Proposal = proposal, outcome: AlterOutcome = outcome) -> Moved:
                return leader.settled(proposal, outcome, now)

            with contain_fault("an answer about in-sync replicas", partition):
                partition.inform_leader(settle)
        self._send()
        self._set_timer()

    # ── time ─────────────────────────────────────────────────────────────────────────────────────

    def _set_timer(self) -> None:
        if self._is_closed:
            return
        if self._timer is not None:
            self._timer.cancel()
        now = self._clock.now().monotonic_ms
        deadlines = [at for partition in self._partitions.copied() if (at := _deadline(partition)) is not None]
        due = min([*deadlines, now + self._lag_ms_max // 2])
        self._timer = self._clock.call_later(max(due - now, TICK_MS_MIN), self._tick)

    def _tick(self) -> None:
        self._timer = None
        now: Millis = self._clock.now().monotonic_ms
        for partition in self._partitions.copied():
            due = _deadline(partition)
            if due is not None and due <= now:
                with contain_fault("a check of in-sync replicas", partition):
                    partition.inform_leader(lambda leader: leader.tick(now))
        self._set_timer()


def _deadline(partition: Partition) -> Millis | None:
    return partition.role.deadline() if isinstance(partition.role, LeaderState) else None
