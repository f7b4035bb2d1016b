"""Voters in the states from which tests of their rules begin, and what their decisions answer."""

from __future__ import annotations

from mqcore.identity import LeaderEpoch
from mqcore.raft.messages import (
    BeginQuorumEpochRequest,
    FetchRequest,
    FetchResponse,
    Ticket,
    VoteResponse,
)
from mqcore.raft.ready import (
    Answered,
    AppendLeaderChange,
    Ready,
    Received,
    Tick,
)
from mqcore.raft.state import Election
from mqcore.wire.errors import ErrorCode
from tests.unit.mqcore.raft.fake_log import ONE, TWO, Driver

TICKET = Ticket(7)


def vote_of(ready: Ready) -> VoteResponse:
    [(ticket, response)] = ready.answers
    assert ticket == TICKET and isinstance(response, VoteResponse)
    return response


def fetched(ready: Ready) -> FetchResponse:
    [(_, response)] = ready.answers
    assert isinstance(response, FetchResponse)
    return response


def error_of(ready: Ready) -> ErrorCode:
    [(_, response)] = ready.answers
    return response.error


def elected() -> Driver:
    """Voter 1 leads epoch 2; its LeaderChange is at offset 10. Voter 2 granted."""
    driver = Driver()
    driver.pass_time(1_600)
    [pre_vote, _] = driver.decide(Tick()).sends
    granted = VoteResponse(ErrorCode.NONE, LeaderEpoch(1), None, granted=True)
    [request, _] = driver.decide(Answered(TWO.id, pre_vote.request, granted)).sends
    won = granted._replace(epoch=LeaderEpoch(2))
    ready = driver.decide(Answered(TWO.id, request.request, won))
    assert ready.log == AppendLeaderChange((ONE, TWO)) and ready.persist == Election(LeaderEpoch(2), ONE, ONE.id)
    driver.append(1, epoch=2)
    return driver


def following(driver: Driver | None = None) -> tuple[Driver, FetchRequest]:
    """Voter 1 follows voter 2 in epoch 2, and the fetch it has sent."""
    driver = driver or Driver()
    begin = BeginQuorumEpochRequest(LeaderEpoch(2), TWO.id, ONE)
    ready = driver.decide(Received(TICKET, begin))
    assert ready.persist == Election(LeaderEpoch(2), None, TWO.id)
    [(node, request)] = ready.sends
    assert node == TWO.id and isinstance(request, FetchRequest)
    return driver, request


def response(**fields: object) -> FetchResponse:
    return FetchResponse(ErrorCode.NONE, LeaderEpoch(2), TWO.id)._replace(**fields)  # type: ignore[arg-type]
