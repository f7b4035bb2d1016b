"""The rules of one voter, one decision at a time. Histories of three are in tests/simulation/raft."""

from __future__ import annotations

from uuid import UUID

import pytest

from mqcore.identity import BrokerId, LeaderEpoch, Millis
from mqcore.log.epochs import EpochEnd
from mqcore.raft import leading, voter
from mqcore.raft.messages import (
    BeginQuorumEpochRequest,
    EndQuorumEpochRequest,
    FetchRequest,
    FetchResponse,
    FetchSnapshotRequest,
    FetchSnapshotResponse,
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
    LogMoved,
    Ready,
    Received,
    Resign,
    StoreSnapshotPart,
    Tick,
    Truncate,
    Unanswered,
)
from mqcore.raft.state import Candidate, Election, Follower, Leader, Prospective, Resigned, Unattached
from mqcore.wire.errors import ErrorCode
from tests.unit.mqcore.raft.fake_log import ONE, RULES, THREE, TWO, WIPED, Driver, FakeLog, fetch_request, vote_request

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


def test_a_former_leader_does_not_lead_its_epoch_again_after_a_restart() -> None:
    driver = Driver(kept=Election(LeaderEpoch(2), ONE, ONE.id))
    assert isinstance(driver.voter.state.role, Unattached)
    assert not vote_of(driver.decide(Received(TICKET, vote_request()))).granted


# ── the commit ───────────────────────────────────────────────────────────────────────────────────


def commit_by_counting() -> int:
    """A follower has everything before the leader's LeaderChange record, at offset 10."""
    driver = elected()
    driver.decide(Received(TICKET, fetch_request(offset=10)))
    return driver.voter.high_watermark


def test_s26_a_record_of_an_old_epoch_is_committed_only_with_one_of_the_new_epoch() -> None:
    assert commit_by_counting() == 0
    driver = elected()
    driver.decide(Received(TICKET, fetch_request(offset=11, last_epoch=2)))
    assert driver.voter.high_watermark == 11


def test_s26_without_the_rule_counting_commits_a_record_of_an_old_epoch(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(leading, "is_own_epoch", lambda end, role: True)
    assert commit_by_counting() == 10


def test_the_leader_counts_itself_only_as_far_as_its_log_is_durable() -> None:
    driver = elected()
    driver.append(1, durable=False)
    driver.decide(Received(TICKET, fetch_request(offset=12, last_epoch=2)))
    assert driver.voter.high_watermark == 11
    driver.log.durable = 12
    driver.decide(LogMoved())
    assert driver.voter.high_watermark == 12


def test_a_fetch_of_a_directory_outside_the_voter_set_commits_nothing() -> None:
    driver = elected()
    driver.decide(Received(TICKET, fetch_request(WIPED, offset=11, last_epoch=2)))
    assert driver.voter.high_watermark == 0


def test_a_fetch_at_a_position_that_is_not_in_the_leaders_log_commits_nothing() -> None:
    driver = elected()
    ready = driver.decide(Received(TICKET, fetch_request(offset=99, last_epoch=1)))
    assert fetched(ready).diverging == EpochEnd(1, 10)
    assert driver.voter.high_watermark == 0


@pytest.mark.parametrize(
    ("epoch", "error"), [(1, ErrorCode.FENCED_LEADER_EPOCH), (3, ErrorCode.NOT_LEADER_OR_FOLLOWER)]
)
def test_a_fetch_of_another_epoch_is_refused_and_counts_for_nothing(epoch: int, error: ErrorCode) -> None:
    driver = elected()
    ready = driver.decide(Received(TICKET, fetch_request(offset=11, last_epoch=2, epoch=epoch)))
    assert error_of(ready) is error
    assert driver.voter.high_watermark == 0


def test_a_stranger_in_a_newer_epoch_does_not_depose_the_leader() -> None:
    driver = elected()
    stranger = VoterKey(BrokerId(9), UUID(int=9))
    ready = driver.decide(Received(TICKET, fetch_request(stranger, offset=11, last_epoch=2, epoch=99)))
    assert error_of(ready) is ErrorCode.UNKNOWN_LEADER_EPOCH
    assert isinstance(driver.voter.state.role, Leader)


def test_a_journal_may_append_only_while_everything_is_durable() -> None:
    driver = elected()
    assert driver.voter.may_append(driver.log)
    driver.append(1, durable=False)
    assert not driver.voter.may_append(driver.log)
    assert not Driver().voter.may_append(FakeLog()), "it does not lead"


# ── serving fetches ──────────────────────────────────────────────────────────────────────────────


def test_a_fetch_without_news_waits_for_an_append_or_a_commit() -> None:
    driver = elected()
    assert driver.decide(Received(TICKET, fetch_request(offset=11, last_epoch=2, high_watermark=11))).answers == ()
    ready = driver.append(1)
    assert fetched(ready).records_from == 11
    assert driver.decide(Received(TICKET, fetch_request(offset=12, last_epoch=2, high_watermark=12))).answers == ()


def test_a_commit_is_told_to_the_other_follower_at_once() -> None:
    driver = elected()
    driver.append(1, durable=False)
    waiting = fetch_request(THREE, 12, last_epoch=2, high_watermark=11)
    assert driver.decide(Received(Ticket(1), waiting)).answers == ()
    ready = driver.decide(Received(Ticket(2), waiting._replace(replica=TWO)))
    assert [ticket for ticket, _ in ready.answers] == [1, 2]
    assert {response.high_watermark for _, response in ready.answers if isinstance(response, FetchResponse)} == {12}


def test_a_second_fetch_of_a_replica_releases_the_first() -> None:
    driver = elected()
    request = fetch_request(offset=11, last_epoch=2, high_watermark=11)
    assert driver.decide(Received(Ticket(1), request)).answers == ()
    ready = driver.decide(Received(Ticket(2), request))
    assert [ticket for ticket, _ in ready.answers] == [1]


def test_a_waiting_fetch_is_answered_when_its_time_is_up() -> None:
    driver = elected()
    driver.decide(Received(TICKET, fetch_request(offset=11, last_epoch=2, high_watermark=11)))
    driver.pass_time(RULES.fetch_wait_ms)
    assert driver.voter.deadline(driver.log) == driver.now
    assert fetched(driver.decide(Tick())).records_from is None


def test_a_leader_that_steps_down_refuses_the_fetches_that_wait() -> None:
    driver = elected()
    driver.decide(Received(Ticket(1), fetch_request(offset=11, last_epoch=2, high_watermark=11)))
    ready = driver.decide(Received(TICKET, vote_request(epoch=9)))
    assert ready.answers[0].response.error is ErrorCode.NOT_LEADER_OR_FOLLOWER


def test_a_replica_below_the_log_start_or_beside_it_gets_the_snapshot() -> None:
    driver = elected()
    driver.log.start, driver.log.snapshot = 5, SnapshotId(5, LeaderEpoch(1))
    for offset, last_epoch in ((4, 1), (0, -1), (5, 0)):
        ready = driver.decide(Received(TICKET, fetch_request(offset=offset, last_epoch=last_epoch)))
        assert fetched(ready).snapshot == (5, 1)
    assert fetched(driver.decide(Received(TICKET, fetch_request(offset=5)))).records_from == 5


def test_only_the_present_snapshot_is_served() -> None:
    driver = elected()
    driver.log.snapshot = SnapshotId(5, LeaderEpoch(1))
    wrong = FetchSnapshotRequest(LeaderEpoch(2), TWO, SnapshotId(4, LeaderEpoch(1)), 0)
    assert error_of(driver.decide(Received(TICKET, wrong))) is ErrorCode.SNAPSHOT_NOT_FOUND
    assert error_of(driver.decide(Received(TICKET, wrong._replace(snapshot=driver.log.snapshot)))) is ErrorCode.NONE


def test_replicas_under_made_up_names_do_not_fill_the_leaders_memory() -> None:
    driver = elected()
    for number in range(100):
        stranger = VoterKey(BrokerId(9), UUID(int=number))
        driver.decide(Received(Ticket(number), fetch_request(stranger, offset=11, last_epoch=2, high_watermark=11)))
        driver.decide(Tick())
    driver.decide(Received(TICKET, fetch_request(TWO, offset=11, last_epoch=2)))
    role = driver.voter.state.role
    assert isinstance(role, Leader) and TWO in role.progress
    assert len(role.progress) <= leading.REPLICAS_MAX + 3 and len(role.waiting) <= leading.REPLICAS_MAX + 3


# ── check-quorum ─────────────────────────────────────────────────────────────────────────────────


def test_a_leader_without_a_majority_resigns_and_names_its_successors() -> None:
    driver = elected()
    driver.decide(Received(TICKET, fetch_request(THREE, offset=10)))
    driver.pass_time(RULES.fetch_timeout_ms)
    ready = driver.decide(Tick())
    assert isinstance(ready.state.role, Resigned)
    assert ready.sends[0].request == EndQuorumEpochRequest(LeaderEpoch(2), ONE.id, (THREE.id, TWO.id))


def test_one_follower_that_fetches_is_enough_for_a_leader_to_stay() -> None:
    driver = elected()
    for number in range(5):
        driver.pass_time(RULES.fetch_timeout_ms - 1)
        driver.decide(Received(Ticket(number), fetch_request(offset=11, last_epoch=2, high_watermark=11)))
        driver.decide(Tick())
    assert isinstance(driver.voter.state.role, Leader)


def test_fetches_that_ask_for_the_same_records_again_do_not_support_a_leader() -> None:
    """The followers' disks are full: they fetch, cannot append, and fetch again."""
    driver = elected()
    for number in range(10):
        driver.decide(Received(Ticket(number), fetch_request(offset=10)))
        driver.pass_time(RULES.fetch_timeout_ms // 5)
        driver.decide(Tick())
    assert not isinstance(driver.voter.state.role, Leader)


def test_a_leader_tells_voters_that_do_not_fetch_who_leads() -> None:
    driver = elected()
    driver.decide(Received(TICKET, fetch_request(offset=11, last_epoch=2, high_watermark=11)))
    driver.pass_time(RULES.fetch_timeout_ms // 2)
    assert {(node, type(request)) for node, request in driver.decide(Tick()).sends} == {
        (THREE.id, BeginQuorumEpochRequest)
    }


def test_a_leader_that_stops_resigns() -> None:
    assert isinstance(elected().decide(Resign()).state.role, Resigned)


# ── following ────────────────────────────────────────────────────────────────────────────────────


def test_a_fetch_leaves_only_when_the_append_before_it_is_durable() -> None:
    driver, request = following()
    ready = driver.decide(Answered(TWO.id, request, response(records=b"batch")))
    assert ready.log == AppendFetched(b"batch") and ready.sends == ()
    assert driver.append(1, epoch=2, durable=False).sends == ()
    driver.log.durable = 11
    [(_, following_request)] = driver.decide(LogMoved()).sends
    assert isinstance(following_request, FetchRequest) and following_request.offset == 11


def test_the_followers_watermark_is_the_leaders_as_far_as_its_own_log_is_durable() -> None:
    driver, request = following()
    driver.decide(Answered(TWO.id, request, response(records=b"batch", high_watermark=12)))
    assert driver.append(1, epoch=2, durable=False).state.high_watermark == 10
    driver.log.durable = 11
    assert driver.decide(LogMoved()).state.high_watermark == 11


def test_a_response_to_an_earlier_fetch_is_dropped() -> None:
    driver, request = following()
    driver.decide(Unanswered(TWO.id, request))
    driver.pass_time(RULES.retry_ms)
    [(_, again)] = driver.decide(Tick()).sends
    assert again == request and again is not request
    assert driver.decide(Answered(TWO.id, request, response(records=b"late"))).log is None
    assert driver.decide(Answered(TWO.id, again, response(records=b"batch"))).log == AppendFetched(b"batch")


def test_a_follower_that_has_lost_its_leader_stands_before_the_fetch_timeout() -> None:
    """A leader that was killed closes its connections."""
    driver, request = following()
    driver.decide(Unanswered(TWO.id, request))
    driver.pass_time(2 * RULES.lost_request_grace_ms)
    assert 2 * RULES.lost_request_grace_ms < RULES.fetch_timeout_ms
    assert isinstance(driver.decide(Tick()).state.role, Prospective)


def test_a_leader_that_answers_the_next_fetch_has_its_full_time_again() -> None:
    driver, request = following()
    driver.decide(Unanswered(TWO.id, request))
    driver.pass_time(RULES.retry_ms)
    [(_, again)] = driver.decide(Tick()).sends
    driver.decide(Answered(TWO.id, again, response()))
    driver.pass_time(RULES.fetch_timeout_ms - 1)
    assert isinstance(driver.decide(Tick()).state.role, Follower)


def test_the_log_is_cut_where_the_epoch_ends_in_either_log() -> None:
    for diverging, end in ((EpochEnd(1, 7), 7), (EpochEnd(1, 99), 8), (EpochEnd(0, 3), 0)):
        driver, request = following()
        driver.log.epochs = ((1, 0), (2, 8))
        assert driver.decide(Answered(TWO.id, request, response(diverging=diverging))).log == Truncate(end)


def test_a_voter_told_to_cut_what_is_committed_stops_with_an_alarm() -> None:
    driver, request = following(Driver(high_watermark=6))
    ready = driver.decide(Answered(TWO.id, request, response(diverging=EpochEnd(1, 5))))
    assert ready.log is None
    assert ready.state.alarm == "leader 2 asks to cut the log at 5, but everything below 6 is committed"
    driver.pass_time(60_000)
    assert driver.decide(Tick()).sends == () and driver.voter.deadline(driver.log) is None


def test_a_voter_told_to_cut_below_its_snapshot_stops_with_an_alarm() -> None:
    driver = Driver(high_watermark=10)
    driver.log = FakeLog(start=10, epochs=((1, 10),), snapshot=SnapshotId(10, LeaderEpoch(1)))
    _, request = following(driver)
    assert driver.decide(Answered(TWO.id, request, response(diverging=EpochEnd(1, 4)))).state.alarm is not None


def test_an_empty_replica_fetches_from_a_log_without_a_snapshot() -> None:
    ready = elected().decide(Received(TICKET, fetch_request(THREE, offset=0, last_epoch=-1)))
    assert fetched(ready).records_from == 0


def test_a_voter_sent_back_to_an_older_snapshot_stops_with_an_alarm() -> None:
    driver, request = following(Driver(high_watermark=6))
    older = SnapshotId(5, LeaderEpoch(1))
    assert driver.decide(Answered(TWO.id, request, response(snapshot=older))).state.alarm is not None


def test_a_snapshot_is_fetched_in_parts() -> None:
    driver, request = following()
    snapshot = SnapshotId(50, LeaderEpoch(1))
    [(_, first)] = driver.decide(Answered(TWO.id, request, response(snapshot=snapshot))).sends
    assert first == FetchSnapshotRequest(LeaderEpoch(2), ONE, snapshot, 0)
    part = FetchSnapshotResponse(ErrorCode.NONE, LeaderEpoch(2), TWO.id, snapshot, 0, 5, b"abc")
    ready = driver.decide(Answered(TWO.id, first, part))
    assert ready.log == StoreSnapshotPart(snapshot, 0, b"abc", is_last=False)
    [(_, second)] = driver.decide(LogMoved()).sends
    assert isinstance(second, FetchSnapshotRequest) and second.position == 3
    ready = driver.decide(Answered(TWO.id, second, part._replace(position=3, data=b"de")))
    assert ready.log == StoreSnapshotPart(snapshot, 3, b"de", is_last=True)
    [(_, third)] = driver.decide(LogMoved()).sends
    assert isinstance(third, FetchRequest)


def test_a_follower_whose_leader_has_resigned_stands_without_waiting_for_its_timer() -> None:
    driver, request = following()
    resigned = FetchResponse(ErrorCode.NOT_LEADER_OR_FOLLOWER, LeaderEpoch(2), None)
    assert isinstance(driver.decide(Answered(TWO.id, request, resigned)).state.role, Unattached)


def test_the_first_successor_stands_at_once_and_the_others_wait() -> None:
    for successors, delay in (((ONE.id, THREE.id), 0), ((THREE.id, ONE.id), 1_500)):
        driver, _ = following()
        ready = driver.decide(Received(TICKET, EndQuorumEpochRequest(LeaderEpoch(2), TWO.id, successors)))
        assert isinstance(ready.state.role, Unattached) and ready.state.role.deadline == driver.now + delay


def test_a_voter_that_gave_up_on_a_leader_follows_it_again_only_at_its_own_word() -> None:
    driver, _ = following()
    driver.pass_time(RULES.fetch_timeout_ms)
    [to_leader, to_third] = driver.decide(Tick()).sends
    hearsay = VoteResponse(ErrorCode.NONE, LeaderEpoch(2), TWO.id)
    assert isinstance(driver.decide(Answered(THREE.id, to_third.request, hearsay)).state.role, Prospective)
    assert isinstance(driver.decide(Answered(TWO.id, to_leader.request, hearsay)).state.role, Follower)


# ── the voter set ────────────────────────────────────────────────────────────────────────────────


def leader_of_two() -> Driver:
    """The third node has not joined yet; everything is committed."""
    driver = elected()
    driver.log.voters = voter_set([ONE, TWO])
    driver.decide(Received(Ticket(1), fetch_request(TWO, offset=11, last_epoch=2)))
    assert driver.voter.high_watermark == 11
    return driver


def test_a_configured_node_that_has_caught_up_becomes_a_voter() -> None:
    ready = leader_of_two().decide(Received(TICKET, fetch_request(THREE, offset=11, last_epoch=2)))
    assert ready.log == AppendVoters(voter_set([ONE, TWO, THREE]))


def test_a_node_that_has_not_caught_up_or_is_not_configured_stays_an_observer() -> None:
    stranger = VoterKey(BrokerId(4), UUID(int=4))
    for replica, offset in ((THREE, 10), (stranger, 11)):
        last_epoch = 1 if offset == 10 else 2
        request = fetch_request(replica, offset=offset, last_epoch=last_epoch)
        assert leader_of_two().decide(Received(TICKET, request)).log is None


def test_the_voter_set_does_not_change_while_a_change_or_the_epoch_is_not_committed() -> None:
    request = Received(TICKET, fetch_request(THREE, offset=11, last_epoch=2))
    driver = leader_of_two()
    driver.log.voters_offset = 11
    driver.log.append(1)
    assert driver.decide(request).log is None
    driver = elected()
    driver.log.voters = voter_set([ONE, TWO])
    assert driver.decide(request).log is None


def test_a_wiped_voter_becomes_a_voter_only_by_the_operators_command() -> None:
    driver = elected()
    driver.decide(Received(Ticket(1), fetch_request(TWO, offset=11, last_epoch=2)))
    assert driver.decide(Received(Ticket(2), fetch_request(WIPED, offset=11, last_epoch=2))).log is None
    ready = driver.decide(Adopt(TICKET, WIPED))
    assert error_of(ready) is ErrorCode.NONE
    assert ready.log == AppendVoters(voter_set([ONE, TWO])), "first its old directory goes"
    driver.log.voters, driver.log.voters_offset = voter_set([ONE, TWO]), 11
    driver.append(1)
    driver.decide(Received(Ticket(3), fetch_request(TWO, offset=12, last_epoch=2)))
    ready = driver.decide(Received(Ticket(4), fetch_request(WIPED, offset=12, last_epoch=2)))
    assert ready.log == AppendVoters(voter_set([ONE, TWO, WIPED]))


def test_adoption_is_refused_for_a_node_that_has_not_caught_up_and_by_a_node_that_does_not_lead() -> None:
    driver = elected()
    assert error_of(driver.decide(Adopt(TICKET, WIPED))) is ErrorCode.INVALID_VOTER_KEY
    assert error_of(Driver().decide(Adopt(TICKET, WIPED))) is ErrorCode.NOT_CONTROLLER


def test_a_node_that_lost_its_folder_does_not_follow_the_leader_that_it_was() -> None:
    driver = Driver(me=WIPED)
    driver.log = FakeLog(end=0, durable=0, epochs=(), voters={})
    driver.pass_time(1_600)
    [(node, request)] = driver.decide(Tick()).sends
    hearsay = FetchResponse(ErrorCode.NOT_LEADER_OR_FOLLOWER, LeaderEpoch(2), WIPED.id)
    for _ in range(2):
        ready = driver.decide(Answered(node, request, hearsay))
        assert isinstance(ready.state.role, Unattached) and ready.state.election == Election(LeaderEpoch(2))
