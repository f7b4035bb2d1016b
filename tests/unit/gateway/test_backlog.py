"""The queue as a gateway sees it: places, waiting times, and when it is too long."""

from __future__ import annotations

import pytest

from gateway.backlog import SHORTEST_WAIT_MS, STALE_S, Backlog
from gateway.places import Place
from seckill.breaker import Permit
from seckill.topics import PURCHASE_DIVERTED

TOPIC = "purchase.requests"


def at(*offsets: int) -> dict[tuple[str, int], int]:
    return {(TOPIC, partition): offset for partition, offset in enumerate(offsets)}


def busy(pace: int) -> Backlog:
    """Inventory has worked for ten seconds at this pace, with more to do all the time: 1000 are left in each of two."""
    backlog = Backlog()
    for second in range(11):
        done = second * pace // 2
        backlog.observe(float(second), at(1000 + done, 1000 + done), at(done, done))
    return backlog


def test_nothing_is_said_of_a_queue_nobody_has_seen_or_not_for_long() -> None:
    assert Backlog().wait_ms(TOPIC, 0.0) is None
    assert Backlog().estimate(Place(TOPIC, 0, 5), 0.0) is None
    assert busy(100).wait_ms(TOPIC, 10.0 + STALE_S + 1) is None


def test_the_wait_is_what_is_left_at_the_pace_that_was_seen() -> None:
    assert busy(100).wait_ms(TOPIC, 10.0) == 20_000
    assert busy(1000).wait_ms(TOPIC, 10.0) == 2_000


def test_a_place_counts_those_before_it_in_all_partitions_that_are_worked_off_beside_it() -> None:
    backlog = busy(100)
    decided = 10 * 50
    last, next_one = Place(TOPIC, 0, decided + 999), Place(TOPIC, 1, decided)
    estimate = backlog.estimate(last, 10.0)
    assert estimate is not None
    assert (estimate.ahead, estimate.wait_ms) == (2 * 999, 19_980)
    assert backlog.estimate(next_one, 10.0) == (0, SHORTEST_WAIT_MS)


def test_a_place_inventory_has_passed_is_decided_and_one_it_has_not_reached_is_not() -> None:
    backlog = busy(100)
    assert backlog.is_decided(Place(TOPIC, 0, 499))
    assert not backlog.is_decided(Place(TOPIC, 0, 500))
    assert not backlog.is_decided(Place("elsewhere", 0, 0)), "what is not watched is not known"


def test_a_quiet_hour_does_not_make_inventory_slow() -> None:
    """One request a second, each decided at once: that is how often somebody comes, not how fast inventory is."""
    backlog = Backlog()
    for second in range(100):
        backlog.observe(float(second), at(second + 1, 0), at(second, 0))
    backlog.observe(100.0, at(100_000, 0), at(100, 0))
    assert backlog.wait_ms(TOPIC, 100.0) is None, "nobody knows yet"


def test_a_queue_that_stands_still_is_expected_to_rest_as_long_again() -> None:
    backlog = busy(100)
    done = 500
    for second in range(11, 71):
        backlog.observe(float(second), at(1000 + done, 1000 + done), at(done, done))
    assert backlog.wait_ms(TOPIC, 70.0) == 20_000 + 60_000


def test_a_queue_that_never_moved_is_known_to_last_at_least_as_long() -> None:
    backlog = Backlog()
    for second in range(31):
        backlog.observe(float(second), at(1000), at(0))
    assert backlog.wait_ms(TOPIC, 30.0) == 30_000


def test_a_log_that_was_cleared_or_a_group_that_was_moved_back_counts_as_no_progress() -> None:
    backlog = busy(100)
    backlog.observe(11.0, at(1000, 1000), at(0, 0))
    assert backlog.wait_ms(TOPIC, 11.0) is not None
    assert backlog.length == 2000


LIMIT_MS = 30_000


def test_a_guard_that_turns_everybody_away_still_admits_one_request_a_second() -> None:
    backlog = busy(100)
    for second in range(11, 60):
        backlog.observe(float(second), at(1500, 1500), at(500, 500))
    permits = [backlog.permit(TOPIC, LIMIT_MS, 59.0 + tenth / 10) for tenth in range(25)]
    assert permits.count(Permit.PROBE) == 3
    assert permits.count(Permit.NO) == 22


def test_a_probe_of_the_guard_that_was_not_sent_leaves_room_for_the_next() -> None:
    backlog = busy(100)
    for second in range(11, 60):
        backlog.observe(float(second), at(1500, 1500), at(500, 500))
    assert backlog.permit(TOPIC, LIMIT_MS, 59.0) is Permit.PROBE
    backlog.give_back()
    assert backlog.permit(TOPIC, LIMIT_MS, 59.0) is Permit.PROBE
    assert backlog.permit(TOPIC, LIMIT_MS, 59.0) is Permit.NO


@pytest.mark.parametrize("stuck", [1, 600])
def test_requests_of_one_partition_that_stands_still_shut_nobody_out_once_another_decision_is_made(stuck: int) -> None:
    """Partition 0 does not move at all; in partition 1 a probe now and then is decided at once."""
    backlog, decided, admitted = busy(100), 1500, 0
    for second in range(11, 1000):
        permit = backlog.permit(TOPIC, LIMIT_MS, float(second))
        if second > 100 and permit is not Permit.NO:
            decided += 1  # it is sent to partition 1, where inventory works
            admitted += permit is Permit.YES
        backlog.observe(float(second), at(1500, decided), at(1500 - stuck, decided))
    assert admitted > 800, "after one probe the guard is open"
    assert backlog.undecided == {TOPIC: stuck}, "what is stuck stays visible"


# ── two topics, one of which goes first ──────────────────────────────────────────────────────────

FIRST = PURCHASE_DIVERTED.name


def diverted(pace: int) -> Backlog:
    """As `busy`, and 200 stand in the topic that goes first."""
    backlog = busy(pace)
    done = 10 * pace // 2
    fresh = {(FIRST, 0): 0, (FIRST, 1): 0}
    ends = at(1000 + done, 1000 + done) | {(FIRST, 0): 150, (FIRST, 1): 50}
    backlog.observe(10.0, ends, at(done, done) | fresh)
    return backlog


def test_whoever_is_diverted_waits_for_those_who_were_and_not_for_the_old_queue() -> None:
    assert diverted(100).wait_ms(FIRST, 10.0) == 2_000
    assert diverted(100).wait_ms(TOPIC, 10.0) == 22_000, "who stays waits for both"


def test_a_place_in_the_old_queue_is_behind_all_that_goes_first() -> None:
    backlog = diverted(100)
    old, fresh = backlog.estimate(Place(TOPIC, 0, 599), 10.0), backlog.estimate(Place(FIRST, 0, 99), 10.0)
    assert old is not None and fresh is not None
    assert old.ahead == 2 * 99 + 200
    assert fresh.ahead == 99 + 50


def test_a_place_whose_turn_has_come_is_not_put_behind_anybody() -> None:
    estimate = diverted(100).estimate(Place(TOPIC, 0, 500), 10.0)
    assert estimate is not None and estimate.ahead == 0


def test_a_pace_that_was_told_holds_until_one_has_been_seen() -> None:
    backlog = Backlog(_pace=200.0)
    backlog.observe(0.0, at(1000, 1000), at(0, 0))
    assert backlog.wait_ms(TOPIC, 0.0) == 10_000
    for second in range(1, 11):
        done = second * 50
        backlog.observe(float(second), at(1000 + done, 1000 + done), at(done, done))
    assert backlog.wait_ms(TOPIC, 10.0) == 20_000, "a hundred a second is what it does"
