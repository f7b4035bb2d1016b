"""The queue as a gateway sees it: places, waiting times, and when it is too long."""

from __future__ import annotations

from gateway.backlog import SHORTEST_WAIT_MS, STALE_S, Backlog
from gateway.places import Place

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
    assert Backlog().wait_ms(0.0) is None
    assert Backlog().estimate(Place(TOPIC, 0, 5), 0.0) is None
    assert busy(100).wait_ms(10.0 + STALE_S + 1) is None


def test_the_wait_is_what_is_left_at_the_pace_that_was_seen() -> None:
    assert busy(100).wait_ms(10.0) == 20_000
    assert busy(1000).wait_ms(10.0) == 2_000


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
    assert backlog.wait_ms(100.0) is None, "nobody knows yet"


def test_a_queue_that_stands_still_is_expected_to_rest_as_long_again() -> None:
    backlog = busy(100)
    done = 500
    for second in range(11, 71):
        backlog.observe(float(second), at(1000 + done, 1000 + done), at(done, done))
    assert backlog.wait_ms(70.0) == 20_000 + 60_000


def test_a_queue_that_never_moved_is_known_to_last_at_least_as_long() -> None:
    backlog = Backlog()
    for second in range(31):
        backlog.observe(float(second), at(1000), at(0))
    assert backlog.wait_ms(30.0) == 30_000


def test_a_log_that_was_cleared_or_a_group_that_was_moved_back_counts_as_no_progress() -> None:
    backlog = busy(100)
    backlog.observe(11.0, at(1000, 1000), at(0, 0))
    assert backlog.wait_ms(11.0) is not None
    assert backlog.length == 2000
