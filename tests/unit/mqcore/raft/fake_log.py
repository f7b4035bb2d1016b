"""A `LogView` whose fields a test sets, and requests and voters to go with it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from uuid import UUID

from mqcore.identity import BrokerId, LeaderEpoch, Millis
from mqcore.log.epochs import EpochCache, EpochEnd
from mqcore.raft.messages import FetchRequest, SnapshotId, VoteRequest, VoterKey, voter_set
from mqcore.raft.ready import Event, LogMoved, QuorumRules, Ready
from mqcore.raft.state import Election
from mqcore.raft.voter import Voter

ONE, TWO, THREE = (VoterKey(BrokerId(number), UUID(int=number)) for number in (1, 2, 3))
WIPED = VoterKey(BrokerId(3), UUID(int=33))
RULES = QuorumRules(frozenset({ONE.id, TWO.id, THREE.id}))


@dataclass
class FakeLog:
    """Ten records of epoch 1, all durable, unless a test says otherwise."""

    start: int = 0
    end: int = 10
    durable: int = 10
    epochs: tuple[tuple[int, int], ...] = ((1, 0),)
    snapshot: SnapshotId | None = None
    voters: Mapping[BrokerId, VoterKey] = field(default_factory=lambda: voter_set([ONE, TWO, THREE]))
    voters_offset: int = 0
    suspect_to: int = 0

    def _cache(self) -> EpochCache:
        cache = EpochCache(lambda: self.end)
        for epoch, offset in self.epochs:
            cache.begin(epoch, offset)
        return cache

    @property
    def last_epoch(self) -> int:
        return self._cache().last_epoch

    def end_of(self, epoch: int) -> EpochEnd:
        return self._cache().end_offset_for(epoch)

    def append(self, count: int, epoch: int | None = None, *, durable: bool = True) -> None:
        if epoch is not None:
            self.epochs = (*self.epochs, (epoch, self.end))
        self.end += count
        if durable:
            self.durable = self.end


class Driver:
    """One voter with its log and its time. A decision is applied at once; the test changes the log itself."""

    def __init__(self, me: VoterKey = ONE, kept: Election | None = None, high_watermark: int = 0) -> None:
        self.log = FakeLog()
        self.now = Millis(1_000)
        kept = kept or Election(LeaderEpoch(1))
        self.voter = Voter(me, RULES, lambda: 0.5, kept, high_watermark, self.now)

    def decide(self, event: Event) -> Ready:
        ready = self.voter.decide(event, self.log, self.now)
        self.voter.apply(ready)
        return ready

    def append(self, count: int, epoch: int | None = None, *, durable: bool = True) -> Ready:
        self.log.append(count, epoch, durable=durable)
        return self.decide(LogMoved())

    def pass_time(self, ms: int) -> None:
        self.now = Millis(self.now + ms)


def vote_request(
    epoch: int = 2,
    *,
    candidate: VoterKey = TWO,
    voter: VoterKey = ONE,
    last_epoch: int = 1,
    end: int = 10,
    pre_vote: bool = False,
) -> VoteRequest:
    return VoteRequest(LeaderEpoch(epoch), candidate, voter, LeaderEpoch(last_epoch), end, pre_vote)


def fetch_request(
    replica: VoterKey = TWO, offset: int = 10, *, epoch: int = 2, last_epoch: int = 1, high_watermark: int = 0
) -> FetchRequest:
    return FetchRequest(LeaderEpoch(epoch), replica, offset, LeaderEpoch(last_epoch), high_watermark)
