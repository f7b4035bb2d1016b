"""Whatever other nodes send, in whatever order, a voter decides without an exception and keeps its invariants."""

from __future__ import annotations

from random import Random
from uuid import UUID

import pytest

from mqcore.identity import BrokerId, LeaderEpoch
from mqcore.log.epochs import EpochEnd
from mqcore.raft.messages import (
    BeginQuorumEpochRequest,
    EndQuorumEpochRequest,
    EpochResponse,
    FetchRequest,
    FetchResponse,
    FetchSnapshotRequest,
    FetchSnapshotResponse,
    Request,
    Response,
    SnapshotId,
    Ticket,
    VoteRequest,
    VoteResponse,
    VoterKey,
    voter_set,
)
from mqcore.raft.ready import (
    Adopt,
    Answered,
    AppendFetched,
    AppendLeaderChange,
    AppendVoters,
    Event,
    LogMoved,
    Ready,
    Received,
    Resign,
    Send,
    StoreSnapshotPart,
    Tick,
    Truncate,
    Unanswered,
)
from mqcore.raft.state import Election
from mqcore.wire.errors import ErrorCode
from tests.unit.mqcore.raft.fake_log import ONE, THREE, TWO, WIPED, Driver, FakeLog

KEYS = (ONE, TWO, THREE, WIPED, VoterKey(BrokerId(9), UUID(int=9)))
ERRORS = (
    ErrorCode.NONE,
    ErrorCode.NONE,
    ErrorCode.NOT_LEADER_OR_FOLLOWER,
    ErrorCode.FENCED_LEADER_EPOCH,
    ErrorCode.UNKNOWN_LEADER_EPOCH,
    ErrorCode.INVALID_VOTER_KEY,
    ErrorCode.SNAPSHOT_NOT_FOUND,
)


class Chaos:
    def __init__(self, seed: int) -> None:
        self.random = Random(seed)
        self.driver = Driver(kept=Election(LeaderEpoch(self.random.randrange(1, 3))))
        if self.random.random() < 0.2:
            self.driver.log = FakeLog(end=0, durable=0, epochs=(), voters={})
        if self.random.random() < 0.2:
            self.driver.log.voters = voter_set([ONE])
        self.sent: list[Send] = []
        self.tickets: set[int] = set()

    def number(self, high: int) -> int:
        return self.random.randrange(high)

    def epoch(self) -> LeaderEpoch:
        return LeaderEpoch(max(0, self.driver.voter.epoch + self.random.choice((-1, 0, 0, 0, 0, 1, 3))))

    def key(self) -> VoterKey:
        return self.random.choice(KEYS)

    def node(self) -> BrokerId | None:
        return self.random.choice((None, *(key.id for key in KEYS)))

    def snapshot(self) -> SnapshotId:
        return SnapshotId(self.number(12), LeaderEpoch(self.number(4)))

    def request(self) -> Request:
        epoch, last_epoch, offset = self.epoch(), LeaderEpoch(self.number(6) - 1), self.number(14)
        match self.number(5):
            case 0:
                return VoteRequest(
                    epoch, self.key(), self.random.choice((ONE, TWO)), last_epoch, offset, self.number(2) == 0
                )
            case 1:
                return BeginQuorumEpochRequest(epoch, self.key().id, self.random.choice((ONE, TWO)))
            case 2:
                return EndQuorumEpochRequest(epoch, self.key().id, (self.key().id, self.key().id))
            case 3:
                return FetchRequest(epoch, self.key(), offset, last_epoch, self.number(14))
            case _:
                return FetchSnapshotRequest(epoch, self.key(), self.snapshot(), offset)

    def response(self, request: Request) -> Response:
        error, epoch, leader = self.random.choice(ERRORS), self.epoch(), self.node()
        if self.number(5) == 0:
            return EpochResponse(error, epoch, leader)
        match request:
            case VoteRequest():
                return VoteResponse(error, epoch, leader, granted=self.number(2) == 0)
            case FetchRequest():
                response = FetchResponse(error, epoch, leader, self.number(14))
                return self.random.choice(
                    (
                        response,
                        response._replace(records=b"x"),
                        response._replace(diverging=EpochEnd(self.number(4) - 1, self.number(14) - 1)),
                        response._replace(snapshot=self.snapshot()),
                    )
                )
            case FetchSnapshotRequest(snapshot=snapshot, position=position):
                return FetchSnapshotResponse(error, epoch, leader, snapshot, position, 3, b"abc"[position:])
            case _:
                return EpochResponse(error, epoch, leader)

    def event(self) -> Event:
        match self.number(9):
            case 0:
                self.driver.pass_time(self.number(3_000))
                return Tick()
            case 1:
                return Adopt(Ticket(0), self.key())
            case 2 if self.number(10) == 0:
                return Resign()
            case 3 | 4 | 5 if self.sent:
                node, request = self.sent.pop(self.number(len(self.sent)))
                return Answered(node, request, self.response(request)) if self.number(5) else Unanswered(node, request)
            case 6:
                return LogMoved()
            case _:
                ticket = Ticket(len(self.tickets) + 1)
                self.tickets.add(ticket)
                return Received(ticket, self.request())

    def step(self) -> None:
        ready = self.driver.decide(self.event())
        while True:
            self.sent += ready.sends
            self.change_log(ready)
            self.driver.voter.check(self.driver.log)
            if ready.log is None:
                return
            ready = self.driver.decide(LogMoved())

    def change_log(self, ready: Ready) -> None:
        log, epoch = self.driver.log, ready.state.election.epoch
        match ready.log:
            case AppendLeaderChange() | AppendFetched():
                log.append(1, epoch if epoch > log.last_epoch else None)
            case AppendVoters(voters):
                log.voters, log.voters_offset = voters, log.end
                log.append(1)
            case Truncate(end):
                assert end >= ready.state.high_watermark
                log.end = log.durable = end
                log.epochs = tuple(start for start in log.epochs if start[1] < end)
            case StoreSnapshotPart(snapshot, is_last=True):
                log.snapshot, log.start, log.end, log.durable = snapshot, *[snapshot.end] * 3
                log.epochs = ((min(snapshot.epoch, epoch), snapshot.end),)


@pytest.mark.parametrize("first", range(0, 400, 100))
def test_no_message_breaks_a_voter(first: int) -> None:
    roles = set()
    for seed in range(first, first + 100):
        chaos = Chaos(seed)
        for _ in range(80):
            chaos.step()
            roles.add(type(chaos.driver.voter.state.role).__name__)
    assert roles == {"Unattached", "Prospective", "Candidate", "Leader", "Follower", "Resigned"}
