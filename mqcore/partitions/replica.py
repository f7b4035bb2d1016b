"""Shell over a store: the local copy in the role that the metadata give it, and the commit that follows from the role.

The high watermark is the end of what every in-sync replica has. With one replica that is the end of its own log, so the
leader of such a partition does not consult its `LeaderState` for each append. Topics with `flush.messages=1` use the
end of the durable part: a power loss cannot take back what was acknowledged or shown to a consumer.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from dataclasses import replace
from uuid import UUID

from mqcore.identity import Millis, Offset, TopicPartition
from mqcore.log.log import Log
from mqcore.log.topic_config import LogConfig
from mqcore.partitions.follower import FollowerState
from mqcore.partitions.leader import LeaderState
from mqcore.partitions.local_copy import LocalCopy
from mqcore.partitions.log_view import acknowledged_end
from mqcore.partitions.producers import Producers
from mqcore.partitions.reads import Divergence, LeaderEpochMismatch, ReplicaFetch
from mqcore.partitions.roles import Membership
from mqcore.partitions.terms import NO_LEADER, Moved, Proposal, Term
from mqcore.partitions.waiting_requests import NotLeader, OnCommit, StorageFault
from mqcore.wire.errors import ErrorCode, Refusal

_logger = logging.getLogger(__name__)

OFFLINE = Refusal(ErrorCode.KAFKA_STORAGE_ERROR, "the log of this partition is offline")
NOT_LEADER = Refusal(ErrorCode.NOT_LEADER_OR_FOLLOWER, "this broker does not lead the partition")


class Replica(LocalCopy):
    """`leader_type` and `follower_type` are the machines; a simulation replaces them by ones with a bug."""

    leader_type: type[LeaderState] = LeaderState
    follower_type: type[FollowerState] = FollowerState

    def __init__(
        self, name: TopicPartition, topic_id: UUID, log: Log, producers: Producers, high_watermark: int
    ) -> None:
        super().__init__(name, topic_id, log, producers, high_watermark)
        self.term: Term | None = None
        self.role: LeaderState | FollowerState | None = None
        self.is_only_replica = False
        self.has_enough_replicas = False  # for acks=all, by `min.insync.replicas`
        self._refusal: Refusal | None = NOT_LEADER  # what an append gets

    def propose(self, proposal: Proposal) -> None:
        """Ask the controller for another ISR."""
        raise NotImplementedError

    def reconfigure(self, config: LogConfig) -> None:
        super().reconfigure(config)
        if isinstance(self.role, LeaderState):
            self.role.rules = replace(self.role.rules, durable_only=self._durable_only)
        elif isinstance(self.role, FollowerState):
            self.role.durable_only = self._durable_only
        if self.offline_reason is None:
            self.request_sync() if self._durable_only else self._advance()

    # ── roles ────────────────────────────────────────────────────────────────────────────────────

    def lead(self, term: Term, membership: Membership, now: Millis) -> None:
        """Begin a term as the leader. Within the same term, learn what the metadata have changed."""
        if self.offline_reason is not None:
            return
        role, log = self.role, self.log
        if isinstance(role, LeaderState) and term.leader_epoch == self.leader_epoch:
            role.log_moved()  # the leader of an only replica does not know of its appends
            moved = role.learned(term, now)
            self._set_term(role.term)
            self._on_moved(role, moved)
            self.append_watchers.notify()  # a follower outside the new ISR has to be heard again
            return
        self._end_term(NotLeader("another leader epoch has begun"))
        self._set_term(term)
        # Begin the epoch now and not with its first batch: a client may ask where it ends before anything is appended.
        log.epochs.begin(term.leader_epoch, log.end_offset)
        if self.is_only_replica:
            end = acknowledged_end(log, durable_only=self._durable_only)
            self.high_watermark = max(self.high_watermark, Offset(end))
        rules = replace(membership.rules, durable_only=self._durable_only)
        me, broker_epoch, is_eligible, _ = membership
        self.role = role = self.leader_type(me, broker_epoch, term, log, self.high_watermark, is_eligible, rules, now)
        self.leads, self._refusal, self._stopped = True, None, None
        self._on_moved(role, role.log_moved())

    def follow(self, term: Term, membership: Membership) -> None:
        """Begin a term as a follower. If the partition has no leader, wait for the next term."""
        if self.offline_reason is not None:
            return
        role, log = self.role, self.log
        if isinstance(role, FollowerState) and role.is_of(term.leader, term.leader_epoch, membership.broker_epoch):
            self._set_term(term)
            return
        self._end_term(NotLeader("another broker leads the partition"))
        self._set_term(term)
        log.epochs.truncate_end(log.end_offset)
        if term.leader != NO_LEADER:
            me, broker_epoch, _, _ = membership
            leader, durable_only = term.leader, self._durable_only
            self.role = self.follower_type(me, broker_epoch, leader, term.leader_epoch, durable_only=durable_only)
            if durable_only and log.flushed_offset < log.end_offset:
                self.request_sync()

    def await_term(self, reason: str) -> None:
        """This broker does not know its role at the moment."""
        if self.offline_reason is None:
            self._end_term(NotLeader(reason))

    def stand_down(self, reason: str) -> None:
        """This broker has no copy of the partition any more, for example because its topic was deleted."""
        if self.offline_reason is None:
            self._stop_serving(NotLeader(reason))

    def go_offline(self, reason: str) -> Refusal:
        """The log cannot be used any more. Fail waiting requests and serve nothing until the broker restarts."""
        if self.offline_reason is None:
            _logger.error("partition offline", extra={"partition": str(self.name), "reason": reason})
            self._stop_serving(StorageFault(reason))
        return OFFLINE

    def _stop_serving(self, outcome: NotLeader | StorageFault) -> None:
        self.offline_reason = outcome.reason
        self._end_term(outcome)
        self._refusal = OFFLINE

    def _set_term(self, term: Term) -> None:
        self.term, self.leader_epoch = term, term.leader_epoch
        self.is_only_replica = len(term.replicas) == 1

    def _end_term(self, outcome: NotLeader | StorageFault) -> None:
        self.role, self.leads, self.has_enough_replicas = None, False, False
        self._refusal = NOT_LEADER
        self._fail_waiting(outcome)

    # ── the commit ───────────────────────────────────────────────────────────────────────────────

    def on_synced(self) -> None:
        """A sync has ended, so more of the log is durable."""
        self._durable.release(self.log.flushed_offset)
        if self._durable_only and self.leads:
            self._advance()

    def fetched(self, fetch: ReplicaFetch, now: Millis) -> LeaderEpochMismatch | Divergence | Refusal | None:
        """A follower asks for records. It gets them only if the result is None."""
        role = self.role
        if not isinstance(role, LeaderState):
            return self._refusal or NOT_LEADER
        outcome = role.fetched(fetch, now)
        if not isinstance(outcome, Moved):
            return outcome
        self._on_moved(role, outcome)
        return None

    def inform_leader(self, change: Callable[[LeaderState], Moved]) -> None:
        """Tell the leader's state what has happened, and carry out what follows. A follower has no such state."""
        if isinstance(self.role, LeaderState):
            self._on_moved(self.role, change(self.role))

    def _advance(self) -> None:
        if self.is_only_replica:
            self._advance_alone(acknowledged_end(self.log, durable_only=self._durable_only))
        else:
            self.inform_leader(LeaderState.log_moved)

    def _advance_alone(self, end: int) -> None:
        """Move the high watermark to the acknowledged end of the own log, and wake the requests that wait for it.

        The order matters: the watermark moves first, because callbacks read up to it. Watchers only schedule their
        work, so whatever must happen before the answer to a commit waits for it itself (`MetadataObserver`)."""
        if end > self.high_watermark:
            self.high_watermark = Offset(end)
            self.watchers.notify()
            self._acknowledgements.release(end, end)

    def _on_moved(self, role: LeaderState, moved: Moved) -> None:
        """The same for several replicas. Callbacks also ask whether enough of them are in sync."""
        self.has_enough_replicas = role.has_enough_replicas
        if moved.high_watermark > self.high_watermark:
            self.high_watermark = moved.high_watermark
            self.watchers.notify()
        local_end = acknowledged_end(self.log, durable_only=self._durable_only)
        self._acknowledgements.release(local_end, self.high_watermark)
        self._deleted.release(moved.low_watermark)
        if moved.proposal is not None:
            self.propose(moved.proposal)

    @property
    def knows_committed_end(self) -> bool:
        """False while a new leader does not know yet how far its predecessor has committed."""
        return isinstance(self.role, LeaderState) and self.high_watermark >= self.role.epoch_start

    def when_committed_end_known(self, on_known: OnCommit) -> None:
        """Call `on_known` once `knows_committed_end`, or once this broker does not lead any more."""
        end = self.role.epoch_start if isinstance(self.role, LeaderState) else self.high_watermark
        self.when_committed(end, on_known)

    def is_deleted_everywhere(self, start: Offset) -> bool:
        """Whether the logs of all in-sync replicas start at or above `start`."""
        role = self.role
        return self.is_only_replica or not isinstance(role, LeaderState) or role.low_watermark >= start

    def when_deleted_everywhere(self, start: Offset, on_deleted: OnCommit) -> None:
        self._deleted.add(start, on_deleted) if self._stopped is None else on_deleted(self._stopped)
