"""Helpers for tests of the replica machines: a log that is only numbers, a term, a leader with its followers."""

from __future__ import annotations

from dataclasses import dataclass, field

from mqcore.identity import BrokerId, LeaderEpoch, Millis, Offset
from mqcore.log.epochs import EpochCache, EpochStart
from mqcore.partitions.leader import LeaderRules, LeaderState
from mqcore.partitions.reads import Divergence, LeaderEpochMismatch, ReplicaFetch
from mqcore.partitions.terms import Moved, Term
from mqcore.wire.errors import Refusal

ONE, TWO, THREE = BrokerId(1), BrokerId(2), BrokerId(3)
EPOCH = LeaderEpoch(5)
BROKER_EPOCHS = {ONE: 11, TWO: 12, THREE: 13}
RULES = LeaderRules(lag_ms_max=1000, retry_ms=100)


@dataclass
class FakeLog:
    """`starts` are the epochs and where they began."""

    end_offset: int = 0
    start_offset: int = 0
    flushed_offset: int = 0
    starts: tuple[tuple[int, int], ...] = ()
    epochs: EpochCache = field(init=False)

    def __post_init__(self) -> None:
        self.epochs = EpochCache(lambda: self.end_offset, [EpochStart(*start) for start in self.starts])


def term(
    *isr: BrokerId,
    leader: BrokerId = ONE,
    epoch: LeaderEpoch = EPOCH,
    partition_epoch: int = 20,
    replicas: tuple[BrokerId, ...] = (ONE, TWO, THREE),
    min_isr: int = 2,
) -> Term:
    return Term(leader, epoch, partition_epoch, replicas, frozenset(isr or replicas), min_isr)


class LeaderHarness:
    """Broker 1 leads. Followers fetch under the broker epochs that the metadata know."""

    def __init__(
        self, of: Term | None = None, log: FakeLog | None = None, high_watermark: int = 0, rules: LeaderRules = RULES
    ) -> None:
        self.log = log or FakeLog()
        self.now = Millis(10_000)
        self.known = dict(BROKER_EPOCHS)
        self.log.epochs.begin((of or term()).leader_epoch, self.log.end_offset)
        self.state = LeaderState(
            ONE,
            BROKER_EPOCHS[ONE],
            of or term(),
            self.log,
            Offset(high_watermark),
            lambda broker, epoch: self.known.get(broker) == epoch,
            rules,
            self.now,
        )

    def append(self, count: int = 1) -> Moved:
        self.log.end_offset += count
        return self.state.log_moved()

    def fetch(
        self,
        by: BrokerId,
        offset: int | None = None,
        *,
        epoch: int = EPOCH,
        last: int | None = None,
        broker_epoch: int | None = None,
        log_start: int = 0,
    ) -> Moved | LeaderEpochMismatch | Divergence | Refusal:
        """Without `offset`, the follower has everything."""
        at = self.log.end_offset if offset is None else offset
        known_last = self.log.epochs.epoch_at(at - 1) if at else -1
        fetch = ReplicaFetch(
            by,
            BROKER_EPOCHS[by] if broker_epoch is None else broker_epoch,
            LeaderEpoch(epoch),
            Offset(at),
            known_last if last is None else last,
            Offset(log_start),
        )
        outcome = self.state.fetched(fetch, self.now)
        self.state.check()
        return outcome

    def fetched(self, by: BrokerId, offset: int | None = None, **more: int) -> Moved:
        outcome = self.fetch(by, offset, **more)
        assert isinstance(outcome, Moved), outcome
        return outcome

    def wait(self, ms: int) -> Moved:
        self.now = Millis(self.now + ms)
        moved = self.state.tick(self.now)
        self.state.check()
        return moved
