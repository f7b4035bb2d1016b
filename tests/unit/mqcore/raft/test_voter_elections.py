"""How a voter votes and stands for election, one decision at a time. Histories are in tests/simulation/raft."""

from __future__ import annotations

from uuid import UUID

import pytest

from mqcore.identity import LeaderEpoch, Millis
from mqcore.raft import voter
from mqcore.raft.messages import (
    BeginQuorumEpochRequest,
    FetchRequest,
    VoteRequest,
    VoteResponse,
    VoterKey,
    voter_set,
)
from mqcore.raft.ready import (
    Answered,
    AppendLeaderChange,
    LogMoved,
    Received,
    Tick,
)
from mqcore.raft.state import Candidate, Election, Prospective, Unattached
from mqcore.wire.errors import ErrorCode
from tests.unit.mqcore.raft.fake_log import ONE, RULES, THREE, TWO, WIPED, Driver, FakeLog, vote_request
from tests.unit.mqcore.raft.voters import TICKET, elected, error_of, following, vote_of

# ── voting ───────────────────────────────────────────────────────────────────────────────────────


def test_a_vote_is_persisted_with_the_decision_that_grants_it() -> None:
    ready = Driver().decide(Received(TICKET, vote_request()))
    assert ready.persist == Election(LeaderEpoch(2), voted=TWO)
    assert vote_of(ready).granted


def test_a_second_candidate_of_the_epoch_gets_no_vote_and_the_first_gets_it_again() -> None:
    driver = Driver(kept=Election(LeaderEpoch(2), voted=TWO))
    assert not vote_of(driver.decide(Received(TICKET, vote_request(candidate=THREE)))).granted
    assert vote_of(driver.decide(Received(TICKET, vote_request()))).granted


def test_a_voter_that_knows_the_leader_of_an_epoch_votes_for_no_other_in_it() -> None:
    driver = Driver(kept=Election(LeaderEpoch(2), leader=THREE.id))
    assert not vote_of(driver.decide(Received(TICKET, vote_request()))).granted


@pytest.mark.parametrize(("last_epoch", "end", "granted"), [(1, 10, True), (1, 9, False), (2, 3, True), (0, 99, False)])
def test_a_vote_goes_only_to_a_log_that_is_at_least_as_long(last_epoch: int, end: int, granted: bool) -> None:
    ready = Driver().decide(Received(TICKET, vote_request(epoch=3, last_epoch=last_epoch, end=end)))
    assert vote_of(ready).granted is granted
    assert ready.state.election.epoch == 3


def test_a_request_for_another_directory_is_refused_and_changes_nothing() -> None:
    driver = Driver()
    wrong = VoterKey(ONE.id, UUID(int=99))
    for request in (vote_request(epoch=9, voter=wrong), BeginQuorumEpochRequest(LeaderEpoch(9), TWO.id, wrong)):
        ready = driver.decide(Received(TICKET, request))
        assert error_of(ready) is ErrorCode.INVALID_VOTER_KEY
        assert ready.persist is None and ready.state.election.epoch == 1


def test_a_pre_vote_changes_nothing() -> None:
    driver = Driver()
    before = driver.voter.state
    ready = driver.decide(Received(TICKET, vote_request(epoch=1, pre_vote=True)))
    assert vote_of(ready).granted
    assert driver.voter.state == before and ready.persist is None


def test_a_pre_vote_is_refused_while_the_fetch_timer_runs() -> None:
    driver, _ = following()
    request = vote_request(candidate=THREE, pre_vote=True)
    assert not vote_of(driver.decide(Received(TICKET, request))).granted
    driver.pass_time(RULES.fetch_timeout_ms)
    assert vote_of(driver.decide(Received(TICKET, request))).granted


def test_a_leader_refuses_pre_votes() -> None:
    assert not vote_of(elected().decide(Received(TICKET, vote_request(pre_vote=True, end=99, last_epoch=2)))).granted


def test_an_empty_voter_votes_only_for_a_log_that_is_not_empty() -> None:
    driver = Driver()
    driver.log = FakeLog(end=0, durable=0, epochs=(), voters={})
    assert not vote_of(driver.decide(Received(TICKET, vote_request(last_epoch=-1, end=0)))).granted
    assert vote_of(driver.decide(Received(TICKET, vote_request(epoch=3, last_epoch=0, end=0)))).granted


def test_a_suspect_voter_neither_votes_nor_stands() -> None:
    driver = Driver()
    driver.log.suspect_to = 12
    assert not vote_of(driver.decide(Received(TICKET, vote_request(end=99)))).granted
    driver.pass_time(5_000)
    [(_, request)] = driver.decide(Tick()).sends
    assert isinstance(request, FetchRequest), "it looks for the leader instead"


# ── standing ─────────────────────────────────────────────────────────────────────────────────────


def test_a_voter_asks_for_pre_votes_before_it_enters_a_new_epoch() -> None:
    driver = Driver()
    driver.pass_time(1_600)
    ready = driver.decide(Tick())
    assert isinstance(ready.state.role, Prospective) and ready.persist is None
    requests = [request for _, request in ready.sends if isinstance(request, VoteRequest)]
    assert [(request.voter, request.pre_vote, request.epoch) for request in requests] == [
        (TWO, True, 1),
        (THREE, True, 1),
    ]


def test_a_candidate_votes_for_itself_durably() -> None:
    driver = Driver()
    driver.pass_time(1_600)
    [pre_vote, _] = driver.decide(Tick()).sends
    granted = VoteResponse(ErrorCode.NONE, LeaderEpoch(1), None, granted=True)
    ready = driver.decide(Answered(TWO.id, pre_vote.request, granted))
    assert isinstance(ready.state.role, Candidate)
    assert ready.persist == Election(LeaderEpoch(2), voted=ONE)


def test_late_pre_votes_do_not_count_as_votes() -> None:
    driver = Driver()
    driver.pass_time(1_600)
    [first, second] = driver.decide(Tick()).sends
    granted = VoteResponse(ErrorCode.NONE, LeaderEpoch(1), None, granted=True)
    driver.decide(Answered(TWO.id, first.request, granted))
    ready = driver.decide(Answered(THREE.id, second.request, granted))
    assert isinstance(ready.state.role, Candidate)


def test_a_refused_prospective_voter_waits_and_tries_again() -> None:
    driver = Driver()
    driver.pass_time(1_600)
    refused = VoteResponse(ErrorCode.NONE, LeaderEpoch(1), None)
    for node, request in driver.decide(Tick()).sends:
        ready = driver.decide(Answered(node, request, refused))
    assert isinstance(ready.state.role, Unattached) and ready.state.role.deadline > driver.now


def test_a_voter_whose_log_is_not_durable_does_not_stand() -> None:
    driver = Driver()
    driver.log.durable = 9
    driver.pass_time(1_600)
    ready = driver.decide(Tick())
    assert isinstance(ready.state.role, Unattached) and ready.sends == ()


def test_a_node_that_is_in_no_voter_set_does_not_stand() -> None:
    driver = Driver(me=WIPED)
    driver.pass_time(1_600)
    [(node, request)] = driver.decide(Tick()).sends
    assert isinstance(request, FetchRequest) and node in {ONE.id, TWO.id}


def test_a_single_voter_leads_with_its_first_decision() -> None:
    rules = RULES.__class__(frozenset({ONE.id}))
    log = FakeLog(voters=voter_set([ONE]))
    alone = voter.Voter(ONE, rules, lambda: 0.5, Election(LeaderEpoch(1)), 0, Millis(0))
    assert alone.deadline(log) == 0
    ready = alone.decide(Tick(), log, Millis(0))
    alone.apply(ready)
    assert ready.persist == Election(LeaderEpoch(2), ONE, ONE.id) and ready.log == AppendLeaderChange((ONE,))
    log.append(1, epoch=2)
    alone.apply(alone.decide(LogMoved(), log, Millis(0)))
    assert alone.high_watermark == 11 and alone.is_active()
    assert alone.deadline(log) is None, "it has nobody to hear from"


@pytest.mark.parametrize("kept", [Election(LeaderEpoch(1)), Election(LeaderEpoch(1), ONE, ONE.id)])
def test_a_voter_that_starts_without_a_leader_asks_for_pre_votes_at_once(kept: Election) -> None:
    driver = Driver(kept=kept)
    assert driver.voter.deadline(driver.log) == driver.now
    ready = driver.decide(Tick())
    requests = [request for _, request in ready.sends]
    assert len(requests) == 2 and all(isinstance(each, VoteRequest) and each.pre_vote for each in requests)
    assert ready.persist is None, "a leader that lives would refuse, and nothing has changed"


def test_the_founder_of_three_leads_with_its_first_decision_because_its_log_names_no_other_voter() -> None:
    driver = Driver()
    driver.log.voters = voter_set([ONE])
    assert driver.decide(Tick()).log == AppendLeaderChange((ONE,))


def test_an_empty_node_asks_for_the_leader_at_once_and_often() -> None:
    driver = Driver(me=WIPED)
    for _ in range(20):
        assert len(driver.decide(Tick()).sends) == 1
        deadline = driver.voter.deadline(driver.log)
        assert deadline is not None and 0 < deadline - driver.now <= 2 * RULES.retry_ms
        driver.now = deadline


def test_a_former_leader_does_not_lead_its_epoch_again_after_a_restart() -> None:
    driver = Driver(kept=Election(LeaderEpoch(2), ONE, ONE.id))
    assert isinstance(driver.voter.state.role, Unattached)
    assert not vote_of(driver.decide(Received(TICKET, vote_request()))).granted
