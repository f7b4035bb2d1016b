"""How a voter follows a leader and how the voter set changes, one decision at a time."""

from __future__ import annotations

from uuid import UUID

from mqcore.identity import BrokerId, LeaderEpoch
from mqcore.log.epochs import EpochEnd
from mqcore.raft.messages import (
    EndQuorumEpochRequest,
    FetchRequest,
    FetchResponse,
    FetchSnapshotRequest,
    FetchSnapshotResponse,
    SnapshotId,
    Ticket,
    VoteResponse,
    VoterKey,
    voter_set,
)
from mqcore.raft.ready import (
    Adopt,
    Answered,
    AppendFetched,
    AppendVoters,
    LogMoved,
    Received,
    StoreSnapshotPart,
    Tick,
    Truncate,
    Unanswered,
)
from mqcore.raft.state import Election, Follower, Prospective, Unattached
from mqcore.wire.errors import ErrorCode
from tests.unit.mqcore.raft.fake_log import ONE, RULES, THREE, TWO, WIPED, Driver, FakeLog, fetch_request
from tests.unit.mqcore.raft.voters import TICKET, elected, error_of, fetched, following, response

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
    role = driver.decide(Answered(TWO.id, request, resigned)).state.role
    assert isinstance(role, Unattached)
    grace_ms = RULES.lost_request_grace_ms
    assert driver.now + grace_ms <= role.deadline < driver.now + 2 * grace_ms <= driver.now + RULES.election_timeout_ms


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
