"""The queue as a gateway sees it: positions, waiting times, and the backlog guard."""

from __future__ import annotations

import pytest

from gateway.backlog import STALE_S, WAIT_MS_MIN, Backlog
from seckill.messaging.record_position import RecordPosition
from seckill.messaging.topics import PURCHASE_DIVERTED
from seckill.resilience.circuit_breaker import Permit

TOPIC = "purchase.requests"


def at(*offsets: int) -> dict[tuple[str, int], int]:
    return {(TOPIC, partition): offset for partition, offset in enumerate(offsets)}


def busy(pace: int) -> Backlog:
    """Inventory has worked at this pace for ten seconds and was never idle; 1000 requests are left in each of two
    partitions."""
    backlog = Backlog()
    for second in range(11):
        done = second * pace // 2
        backlog.observe(float(second), at(1000 + done, 1000 + done), at(done, done))
    return backlog


def test_an_unobserved_or_stale_queue_has_no_estimate() -> None:
    assert Backlog().wait_ms(TOPIC, 0.0) is None
    assert Backlog().estimate(RecordPosition(TOPIC, 0, 5), 0.0) is None
    assert busy(100).wait_ms(TOPIC, 10.0 + STALE_S + 1) is None


def test_the_wait_is_the_remaining_queue_at_the_observed_pace() -> None:
    assert busy(100).wait_ms(TOPIC, 10.0) == 20_000
    assert busy(1000).wait_ms(TOPIC, 10.0) == 2_000


def test_a_position_counts_the_requests_ahead_in_all_partitions() -> None:
    backlog = busy(100)
    decided = 10 * 50
    last, next_one = RecordPosition(TOPIC, 0, decided + 999), RecordPosition(TOPIC, 1, decided)
    estimate = backlog.estimate(last, 10.0)
    assert estimate is not None
    assert (estimate.ahead, estimate.wait_ms) == (2 * 999, 19_980)
    assert backlog.estimate(next_one, 10.0) == (0, WAIT_MS_MIN)


def test_a_position_is_decided_once_inventory_has_passed_it() -> None:
    backlog = busy(100)
    assert backlog.is_decided(RecordPosition(TOPIC, 0, 499))
    assert not backlog.is_decided(RecordPosition(TOPIC, 0, 500))
    assert not backlog.is_decided(RecordPosition("elsewhere", 0, 0)), "an unobserved partition has no estimate"


def test_quiet_times_do_not_lower_the_pace() -> None:
    """One request per second, each decided at once: this shows the arrival rate, not inventory's pace."""
    backlog = Backlog()
    for second in range(100):
        backlog.observe(float(second), at(second + 1, 0), at(second, 0))
    backlog.observe(100.0, at(100_000, 0), at(100, 0))
    assert backlog.wait_ms(TOPIC, 100.0) is None, "not known yet"


def test_a_stalled_queue_is_expected_to_pause_as_long_again() -> None:
    backlog = busy(100)
    done = 500
    for second in range(11, 71):
        backlog.observe(float(second), at(1000 + done, 1000 + done), at(done, done))
    assert backlog.wait_ms(TOPIC, 70.0) == 20_000 + 60_000


def test_a_queue_that_never_moved_waits_at_least_as_long_as_it_has_stalled() -> None:
    backlog = Backlog()
    for second in range(31):
        backlog.observe(float(second), at(1000), at(0))
    assert backlog.wait_ms(TOPIC, 30.0) == 30_000


def test_a_truncated_log_or_a_reset_group_counts_as_no_progress() -> None:
    backlog = busy(100)
    backlog.observe(11.0, at(1000, 1000), at(0, 0))
    assert backlog.wait_ms(TOPIC, 11.0) is not None
    assert backlog.length == 2000


LIMIT_MS = 30_000


def test_a_closed_backlog_guard_still_admits_one_request_per_second() -> None:
    backlog = busy(100)
    for second in range(11, 60):
        backlog.observe(float(second), at(1500, 1500), at(500, 500))
    permits = [backlog.permit(TOPIC, LIMIT_MS, 59.0 + tenth / 10) for tenth in range(25)]
    assert permits.count(Permit.PROBE) == 3
    assert permits.count(Permit.NO) == 22


def test_an_unsent_probe_is_returned_to_the_next_request() -> None:
    backlog = busy(100)
    for second in range(11, 60):
        backlog.observe(float(second), at(1500, 1500), at(500, 500))
    assert backlog.permit(TOPIC, LIMIT_MS, 59.0) is Permit.PROBE
    backlog.give_back()
    assert backlog.permit(TOPIC, LIMIT_MS, 59.0) is Permit.PROBE
    assert backlog.permit(TOPIC, LIMIT_MS, 59.0) is Permit.NO


@pytest.mark.parametrize("stuck", [1, 600])
def test_a_single_stalled_partition_does_not_close_the_guard(stuck: int) -> None:
    """Partition 0 does not move; in partition 1 each probe is decided at once."""
    backlog, decided, admitted = busy(100), 1500, 0
    for second in range(11, 1000):
        permit = backlog.permit(TOPIC, LIMIT_MS, float(second))
        if second > 100 and permit is not Permit.NO:
            decided += 1  # it is sent to partition 1, where inventory works
            admitted += permit is Permit.YES
        backlog.observe(float(second), at(1500, decided), at(1500 - stuck, decided))
    assert admitted > 800, "after one decided probe the guard is open"
    assert backlog.undecided == {TOPIC: stuck}, "stalled requests stay visible"


# ── two topics, one of which goes first ──────────────────────────────────────────────────────────

FIRST = PURCHASE_DIVERTED.name


def diverted(pace: int) -> Backlog:
    """Like `busy`, with 200 requests in the priority topic."""
    backlog = busy(pace)
    done = 10 * pace // 2
    fresh = {(FIRST, 0): 0, (FIRST, 1): 0}
    ends = at(1000 + done, 1000 + done) | {(FIRST, 0): 150, (FIRST, 1): 50}
    backlog.observe(10.0, ends, at(done, done) | fresh)
    return backlog


def test_a_diverted_request_waits_for_the_diverted_topic_only() -> None:
    assert diverted(100).wait_ms(FIRST, 10.0) == 2_000
    assert diverted(100).wait_ms(TOPIC, 10.0) == 22_000, "a request in the old queue waits for both"


def test_a_request_in_the_old_queue_waits_for_the_whole_priority_topic() -> None:
    backlog = diverted(100)
    old, fresh = (
        backlog.estimate(RecordPosition(TOPIC, 0, 599), 10.0),
        backlog.estimate(RecordPosition(FIRST, 0, 99), 10.0),
    )
    assert old is not None and fresh is not None
    assert old.ahead == 2 * 99 + 200
    assert fresh.ahead == 99 + 50


def test_a_request_whose_turn_has_come_has_nothing_ahead() -> None:
    estimate = diverted(100).estimate(RecordPosition(TOPIC, 0, 500), 10.0)
    assert estimate is not None and estimate.ahead == 0


def test_a_configured_pace_holds_until_one_has_been_observed() -> None:
    backlog = Backlog(_pace=200.0)
    backlog.observe(0.0, at(1000, 1000), at(0, 0))
    assert backlog.wait_ms(TOPIC, 0.0) == 10_000
    for second in range(1, 11):
        done = second * 50
        backlog.observe(float(second), at(1000 + done, 1000 + done), at(done, done))
    assert backlog.wait_ms(TOPIC, 10.0) == 20_000, "the observed pace is 100 per second"
