"""Machine: what the leader of a partition knows of its followers, and what follows from it (KIP-101, 320, 497, 903).

It is built from the metadata and the log when a term begins, and dropped when it ends. It stores nothing. Followers
count only once they have fetched in this term, because what they said before may have been truncated since.

Own rules:
* A fetch passes every fence before it changes anything.
* The high watermark is the smallest end of the maximal ISR.
* A follower joins the ISR when it has everything below the high watermark *and* below the start of this term: a new
  leader's high watermark may be older than what its predecessor has acknowledged.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from mqcore.identity import BrokerId, Millis, Offset
from mqcore.partitions.isr import Isr
from mqcore.partitions.log_view import LogView, acknowledged_end
from mqcore.partitions.reads import Divergence, LeaderEpochMismatch, ReplicaFetch
from mqcore.partitions.terms import NO_BROKER_EPOCH, AlterOutcome, Applied, Moved, Proposal, Term
from mqcore.wire.errors import ErrorCode, Refusal

IsEligible = Callable[[BrokerId, int], bool]
"""Whether the metadata know this broker under this broker epoch, and it is not fenced."""


@dataclass(frozen=True, slots=True)
class LeaderRules:
    lag_ms_max: int = 30_000  # replica.lag.time.max.ms
    retry_ms: int = 500  # between a proposal without success and the next one
    durable_only: bool = False  # flush.messages=1


@dataclass(slots=True)
class Follower:
    caught_up_at: Millis  # the last time at which it had everything that the leader had
    end: Offset | None = None  # None until it fetches in this term
    log_start: Offset | None = None
    broker_epoch: int = NO_BROKER_EPOCH
    fetched_at: Millis | None = None
    leader_end_then: int = 0  # the leader's end at its last fetch


class LeaderState:
    """`high_watermark` is the one that this broker knows from before the term."""

    def __init__(
        self,
        me: BrokerId,
        broker_epoch: int,
        term: Term,
        log: LogView,
        high_watermark: Offset,
        is_eligible: IsEligible,
        rules: LeaderRules,
        now: Millis,
    ) -> None:
        assert term.leader == me
        self.term = term
        self.rules = rules
        self.isr = Isr(term)
        self.epoch_start = Offset(log.end_offset)
        self.high_watermark = max(high_watermark, Offset(log.start_offset))
        self.low_watermark = Offset(0)
        self.followers: dict[BrokerId, Follower] = {}
        self._me = me
        self._broker_epoch = broker_epoch
        self._log = log
        self._is_eligible = is_eligible
        self._retry_at = now
        self._add_followers(now)

    def _add_followers(self, now: Millis) -> None:
        known = self.followers
        self.followers = {b: known.get(b) or Follower(now) for b in self.term.replicas if b != self._me}

    # ── what callers ask ─────────────────────────────────────────────────────────────────────────

    @property
    def has_enough_replicas(self) -> bool:
        """Whether acks=all may be accepted, by `min.insync.replicas`."""
        return len(self.isr.committed) >= self.term.min_isr

    @property
    def knows_committed_end(self) -> bool:
        """Until then the high watermark may be lower than what the previous leader has shown, so it is not told."""
        return self.high_watermark >= self.epoch_start

    # ── what happens ─────────────────────────────────────────────────────────────────────────────

    def log_moved(self) -> Moved:
        """The log has a new end, durable end or start."""
        return self._moved()

    def fetched(self, fetch: ReplicaFetch, now: Millis) -> Moved | LeaderEpochMismatch | Divergence | Refusal:
        """A follower asks for the records from `fetch.offset` on. Read them only if the result is `Moved`."""
        refused = self._fence(fetch)
        if refused is not None:
            return refused
        follower, end = self.followers[fetch.replica], self._log.end_offset
        if fetch.offset >= end:
            follower.caught_up_at = now
        elif follower.fetched_at is not None and fetch.offset >= follower.leader_end_then:
            follower.caught_up_at = max(follower.caught_up_at, follower.fetched_at)
        follower.end, follower.log_start = fetch.offset, fetch.log_start
        follower.broker_epoch = fetch.broker_epoch
        follower.fetched_at, follower.leader_end_then = now, end
        return self._moved(now if fetch.replica not in self.isr.committed else None)

    def still_had_everything(self, replica: BrokerId, at: Millis) -> None:
        """The follower's last fetch was still open at `at`, because there was nothing to copy."""
        follower = self.followers.get(replica)
        if follower is not None and follower.fetched_at is not None:
            follower.caught_up_at = max(follower.caught_up_at, at)
            follower.fetched_at = max(follower.fetched_at, at)

    def _fence(self, fetch: ReplicaFetch) -> LeaderEpochMismatch | Divergence | Refusal | None:
        epoch, log = self.term.leader_epoch, self._log
        if fetch.leader_epoch != epoch:
            is_older = fetch.leader_epoch < epoch
            return LeaderEpochMismatch(
                ErrorCode.FENCED_LEADER_EPOCH if is_older else ErrorCode.UNKNOWN_LEADER_EPOCH, epoch
            )
        follower = self.followers.get(fetch.replica)
        if follower is None:
            return Refusal(ErrorCode.UNKNOWN_LEADER_EPOCH, f"broker {fetch.replica} has no replica, as far as we know")
        if fetch.broker_epoch < follower.broker_epoch:
            return Refusal(ErrorCode.STALE_BROKER_EPOCH, "sent before this broker was registered again")
        if fetch.last_fetched_epoch >= 0:
            common, end = log.epochs.end_offset_for(fetch.last_fetched_epoch)
            if common < fetch.last_fetched_epoch or end < fetch.offset:
                return Divergence(common, end)
        if not log.start_offset <= fetch.offset <= log.end_offset:
            message = f"offset {fetch.offset} is outside {log.start_offset} to {log.end_offset}"
            return Refusal(ErrorCode.OFFSET_OUT_OF_RANGE, message)
        return None

    def learned(self, term: Term, now: Millis) -> Moved:
        """The metadata have another ISR, other replicas or another minimum for the same term."""
        assert term.leader_epoch == self.term.leader_epoch
        if term.partition_epoch >= self.isr.partition_epoch:
            self.isr.learn(term)
            self.term = term
            self._add_followers(now)
        return self._moved()

    def settled(self, proposal: Proposal, outcome: AlterOutcome, now: Millis) -> Moved:
        if self.isr.settle(proposal, outcome) and not isinstance(outcome, Applied):
            self._retry_at = Millis(now + self.rules.retry_ms)
        return self._moved()

    def tick(self, now: Millis) -> Moved:
        """Expel slow followers, and propose again after a proposal without success."""
        return self._moved(now)

    def deadline(self) -> Millis | None:
        """When `tick` has something to do."""
        if self.isr.proposed is not None:
            return None
        due = [
            Millis(follower.caught_up_at + self.rules.lag_ms_max + 1)
            for broker, follower in self.followers.items()
            if broker in self.isr.committed and not self._is_caught_up(follower)
        ]
        if not self.isr.is_certain or self._joiners():
            due.append(self._retry_at)
        return max(min(due), self._retry_at) if due else None

    # ── what follows ─────────────────────────────────────────────────────────────────────────────

    def _moved(self, propose_at: Millis | None = None) -> Moved:
        self._advance()
        proposal = None
        if propose_at is not None and propose_at >= self._retry_at:
            proposal = self._propose(propose_at)
        return Moved(self.high_watermark, self.low_watermark, proposal)

    def _advance(self) -> None:
        members = [self.followers[broker] for broker in self._counted() if broker != self._me]
        end = acknowledged_end(self._log, durable_only=self.rules.durable_only)
        start = self._log.start_offset
        for follower in members:
            if follower.end is None or follower.log_start is None:
                return
            end, start = min(end, follower.end), min(start, follower.log_start)
        self.high_watermark = max(self.high_watermark, Offset(end))
        self.low_watermark = max(self.low_watermark, Offset(start))

    def _counted(self) -> frozenset[BrokerId]:
        return self.isr.maximal()

    def _propose(self, now: Millis) -> Proposal | None:
        stays = {broker for broker in self.isr.committed if not self._is_slow(broker, now)}
        isr = frozenset(stays | self._joiners() | {self._me})
        epochs = {broker: follower.broker_epoch for broker, follower in self.followers.items()}
        return self.isr.propose(isr, epochs | {self._me: self._broker_epoch})

    def _is_slow(self, broker: BrokerId, now: Millis) -> bool:
        if broker == self._me:
            return False
        follower = self.followers[broker]
        return not self._is_caught_up(follower) and now - follower.caught_up_at > self.rules.lag_ms_max

    def _is_caught_up(self, follower: Follower) -> bool:
        return follower.end is not None and follower.end >= self._log.end_offset

    def _joiners(self) -> set[BrokerId]:
        return {broker for broker in self.followers.keys() - self.isr.committed if self._may_join(broker)}

    def _may_join(self, broker: BrokerId) -> bool:
        follower = self.followers[broker]
        if follower.end is None or follower.end < max(self.high_watermark, self.epoch_start):
            return False
        return self._is_eligible(broker, follower.broker_epoch)

    def check(self) -> None:
        self.isr.check()
        assert self._me in self.isr.committed
        assert self.isr.maximal() - {self._me} <= self.followers.keys()
        assert self.low_watermark <= self.high_watermark <= self._log.end_offset
