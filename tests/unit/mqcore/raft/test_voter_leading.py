"""What a leader commits, serves and gives up, one decision at a time. Histories are in tests/simulation/raft."""

from __future__ import annotations

from uuid import UUID

import pytest

from mqcore.identity import BrokerId, LeaderEpoch
from mqcore.log.epochs import EpochEnd
from mqcore.raft import leading
from mqcore.raft.messages import (
    BeginQuorumEpochRequest,
    EndQuorumEpochRequest,
    FetchResponse,
    FetchSnapshotRequest,
    SnapshotId,
    Ticket,
    VoterKey,
)
from mqcore.raft.ready import (
    LogMoved,
    Received,
    Resign,
    Tick,
)
from mqcore.raft.state import Leader, Resigned
from mqcore.wire.errors import ErrorCode
from tests.unit.mqcore.raft.fake_log import ONE, RULES, THREE, TWO, WIPED, Driver, FakeLog, fetch_request, vote_request
from tests.unit.mqcore.raft.voters import TICKET, elected, error_of, fetched

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
