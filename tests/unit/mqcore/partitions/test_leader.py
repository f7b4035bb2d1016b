"""What a leader concludes from the fetches of its followers."""

from __future__ import annotations

from itertools import product

import pytest

from mqcore.partitions.leader import LeaderRules
from mqcore.partitions.reads import Divergence, LeaderEpochMismatch
from mqcore.partitions.terms import Applied, Moved, NotApplied, Unknown
from mqcore.wire.errors import ErrorCode, Refusal
from tests.unit.mqcore.partitions.replicas import (
    BROKER_EPOCHS,
    EPOCH,
    ONE,
    RULES,
    THREE,
    TWO,
    FakeLog,
    LeaderHarness,
    term,
)

# ── high watermark ───────────────────────────────────────────────────────────────────────────────────────


def test_a_record_is_committed_once_every_in_sync_replica_has_it() -> None:
    leader = LeaderHarness()
    assert leader.append(3).high_watermark == 0
    assert leader.fetched(TWO, 3).high_watermark == 0
    assert leader.fetched(THREE, 2).high_watermark == 2
    assert leader.fetched(THREE, 3).high_watermark == 3


def test_a_leader_alone_in_the_isr_commits_what_it_writes() -> None:
    assert LeaderHarness(term(ONE)).append(2).high_watermark == 2


def test_with_flush_messages_one_the_leader_counts_only_its_durable_part() -> None:
    leader = LeaderHarness(term(ONE), rules=LeaderRules(durable_only=True))
    assert leader.append(2).high_watermark == 0
    leader.log.flushed_offset = 1
    assert leader.state.log_moved().high_watermark == 1


def test_what_a_follower_said_before_this_term_does_not_count() -> None:
    leader = LeaderHarness(log=FakeLog(10, starts=((4, 0),)), high_watermark=7)
    assert leader.fetched(TWO, 10).high_watermark == 7
    assert leader.fetched(THREE, 10).high_watermark == 10


def test_the_high_watermark_never_goes_back() -> None:
    leader = LeaderHarness()
    leader.append(5)
    leader.fetched(TWO, 5)
    assert leader.fetched(THREE, 5).high_watermark == 5
    assert leader.fetched(TWO, 3).high_watermark == 5


def test_a_new_leader_does_not_know_the_committed_end_before_its_own_term_is_committed() -> None:
    leader = LeaderHarness(log=FakeLog(10, starts=((4, 0),)), high_watermark=7)
    assert not leader.state.knows_committed_end
    leader.fetched(TWO, 10)
    leader.fetched(THREE, 10)
    assert leader.state.knows_committed_end


def test_records_are_deleted_everywhere_below_the_smallest_log_start() -> None:
    leader = LeaderHarness()
    leader.append(9)
    leader.log.start_offset = 6
    leader.fetched(TWO, 9, log_start=6)
    assert leader.fetched(THREE, 9, log_start=4).low_watermark == 4
    assert leader.fetched(THREE, 9, log_start=6).low_watermark == 6


def test_acks_all_needs_the_minimum_of_committed_members() -> None:
    leader = LeaderHarness(term(ONE))
    assert not leader.state.has_enough_replicas
    proposal = leader.fetched(TWO, 0).proposal
    assert proposal is not None and not leader.state.has_enough_replicas
    leader.state.settled(proposal, Applied(proposal.isr, 21), leader.now)
    assert leader.state.has_enough_replicas


def test_another_minimum_applies_without_another_isr() -> None:
    leader = LeaderHarness(term(ONE))
    leader.state.learned(term(ONE, min_isr=1), leader.now)
    assert leader.state.has_enough_replicas


# ── joining and leaving the ISR ──────────────────────────────────────────────────────────────────────────


def test_a_follower_that_has_caught_up_is_proposed_for_the_isr() -> None:
    leader = LeaderHarness(term(ONE, TWO))
    leader.append(4)
    assert leader.fetched(THREE, 0).proposal is not None, "nothing is committed yet, so it lacks nothing"
    leader = LeaderHarness(term(ONE, TWO))
    leader.append(4)
    leader.fetched(TWO, 4)
    assert leader.fetched(THREE, 3).proposal is None
    proposal = leader.fetched(THREE, 4).proposal
    assert proposal is not None and proposal.isr == {ONE, TWO, THREE}
    assert proposal.broker_epochs == BROKER_EPOCHS


def test_a_follower_needs_everything_from_before_this_term_to_join() -> None:
    """The high watermark of a new leader may be older than what its predecessor has acknowledged (S9)."""
    leader = LeaderHarness(term(ONE, TWO), FakeLog(10, starts=((4, 0),)), high_watermark=7)
    assert leader.fetched(THREE, 8).proposal is None
    assert leader.fetched(THREE, 10).proposal is not None


@pytest.mark.parametrize("known", [12, None])
def test_a_follower_that_the_metadata_know_otherwise_is_not_proposed(known: int | None) -> None:
    leader = LeaderHarness(term(ONE, TWO))
    if known is None:
        del leader.known[THREE]  # fenced
    else:
        leader.known[THREE] = known  # registered again
    assert leader.fetched(THREE, 0).proposal is None


def test_a_proposed_member_holds_the_high_watermark_back() -> None:
    leader = LeaderHarness(term(ONE, TWO))
    assert leader.fetched(THREE, 0).proposal is not None
    leader.append(5)
    assert leader.fetched(TWO, 5).high_watermark == 0
    assert leader.fetched(THREE, 5).high_watermark == 5


def test_a_slow_follower_is_expelled_after_the_lag_time_and_readmitted_when_it_has_caught_up() -> None:
    leader = LeaderHarness()
    leader.append(5)
    leader.fetched(TWO, 5)
    assert leader.wait(RULES.lag_ms_max).proposal is None
    proposal = leader.wait(1).proposal
    assert proposal is not None and proposal.isr == {ONE, TWO}
    assert leader.state.high_watermark == 0, "until the controller agrees, it counts"
    assert leader.state.settled(proposal, Applied(proposal.isr, 21), leader.now).high_watermark == 5
    assert leader.fetched(THREE, 4).proposal is None
    back = leader.fetched(THREE, 5).proposal
    assert back is not None and back.isr == {ONE, TWO, THREE}


def test_a_follower_is_not_slow_if_it_keeps_up_with_what_there_was_at_its_last_fetch() -> None:
    leader = LeaderHarness()
    for _ in range(20):
        leader.append(5)
        for follower in (TWO, THREE):
            leader.fetched(follower, leader.log.end_offset - 5)
        assert leader.wait(RULES.lag_ms_max // 2).proposal is None


def test_a_silent_follower_is_not_slow_while_it_has_everything() -> None:
    leader = LeaderHarness()
    leader.fetched(TWO)
    leader.fetched(THREE)
    assert leader.wait(100 * RULES.lag_ms_max).proposal is None
    assert leader.state.deadline() is None


def test_a_follower_that_never_fetches_in_this_term_is_expelled() -> None:
    leader = LeaderHarness()
    leader.fetched(TWO)
    proposal = leader.wait(RULES.lag_ms_max + 1).proposal
    assert proposal is not None and proposal.isr == {ONE, TWO}


@pytest.mark.parametrize("outcome", [NotApplied(), Unknown()])
def test_after_a_proposal_without_success_the_leader_proposes_again_after_a_pause(
    outcome: NotApplied | Unknown,
) -> None:
    leader = LeaderHarness(term(ONE, TWO))
    proposal = leader.fetched(THREE).proposal
    assert proposal is not None
    leader.state.settled(proposal, outcome, leader.now)
    assert leader.fetched(THREE).proposal is None
    assert leader.state.deadline() == leader.now + RULES.retry_ms
    assert leader.wait(RULES.retry_ms).proposal is not None


def test_after_an_unknown_outcome_the_leader_proposes_even_the_isr_that_is_committed() -> None:
    """The follower that it wanted to add has died. Only a newer partition epoch settles whether it was."""
    leader = LeaderHarness(term(ONE, TWO))
    leader.fetched(TWO)
    proposal = leader.fetched(THREE).proposal
    assert proposal is not None
    leader.state.settled(proposal, Unknown(), leader.now)
    del leader.known[THREE]
    again = leader.wait(RULES.retry_ms).proposal
    assert again is not None and again.isr == {ONE, TWO}
    leader.append(1)
    assert leader.fetched(TWO).high_watermark == 0
    assert leader.state.settled(again, Applied(again.isr, 21), leader.now).high_watermark == 1


def test_the_deadline_is_when_the_tick_has_something_to_do() -> None:
    leader = LeaderHarness()
    leader.append(1)
    leader.fetched(TWO, 1)
    due = leader.state.deadline()
    assert due == leader.now + RULES.lag_ms_max + 1
    assert leader.wait(due - leader.now - 1).proposal is None
    assert leader.wait(1).proposal is not None


def test_a_new_replica_may_join_and_a_removed_one_no_longer_counts() -> None:
    leader = LeaderHarness(term(replicas=(ONE, TWO)))
    refused = leader.fetch(THREE)
    assert isinstance(refused, Refusal) and refused.error is ErrorCode.UNKNOWN_LEADER_EPOCH
    leader.state.learned(term(ONE, partition_epoch=21, replicas=(ONE, THREE)), leader.now)
    assert leader.append(1).high_watermark == 1
    assert leader.fetched(THREE).proposal is not None
    assert isinstance(leader.fetch(TWO), Refusal)


# ── fences ───────────────────────────────────────────────────────────────────────────────────────────────


def facts(leader: LeaderHarness) -> str:
    state = leader.state
    return repr((state.followers, state.high_watermark, state.low_watermark, state.isr.maximal(), state.isr.proposed))


def test_no_field_of_a_fetch_passes_its_fence_with_a_wrong_value_or_changes_anything() -> None:
    """S5: every combination of right and wrong values, so that no fence hides behind another one."""
    right = {"epoch": EPOCH, "offset": 8, "last": 4, "broker_epoch": 12}
    wrong = {
        "epoch": [EPOCH - 1, EPOCH + 1],
        "offset": [1, 11],
        "last": [3, EPOCH],
        "broker_epoch": [11],
    }
    accepted = 0
    for choice in product(*([right[name], *wrong[name]] for name in right)):
        leader = LeaderHarness(log=FakeLog(10, start_offset=2, starts=((2, 2), (4, 6))), high_watermark=6)
        leader.fetched(TWO, 7)
        before, fetch = facts(leader), dict(zip(right, choice, strict=True))
        outcome = leader.fetch(TWO, **fetch)
        if isinstance(outcome, Moved):
            accepted += 1
            assert fetch == right or fetch == right | {"last": EPOCH}, fetch
        else:
            assert facts(leader) == before, fetch
    assert accepted == 2, "the last epoch may be the current one, in which nothing was written"


@pytest.mark.parametrize(
    ("fetch", "expected"),
    [
        ({"epoch": EPOCH - 1}, LeaderEpochMismatch(ErrorCode.FENCED_LEADER_EPOCH, EPOCH)),
        ({"epoch": EPOCH + 1}, LeaderEpochMismatch(ErrorCode.UNKNOWN_LEADER_EPOCH, EPOCH)),
        ({"offset": 9, "last": 2}, Divergence(2, 6)),
        ({"offset": 9, "last": 3}, Divergence(2, 6)),
        ({"offset": 11, "last": 4}, Divergence(4, 10)),
    ],
)
def test_a_fenced_fetch_learns_why(fetch: dict[str, int], expected: object) -> None:
    leader = LeaderHarness(log=FakeLog(10, starts=((2, 0), (4, 6))), high_watermark=6)
    assert leader.fetch(TWO, **fetch) == expected


def test_a_follower_below_the_log_start_is_out_of_range() -> None:
    leader = LeaderHarness(log=FakeLog(10, start_offset=5, starts=((4, 5),)))
    outcome = leader.fetch(TWO, 2, last=-1)
    assert isinstance(outcome, Refusal) and outcome.error is ErrorCode.OFFSET_OUT_OF_RANGE
