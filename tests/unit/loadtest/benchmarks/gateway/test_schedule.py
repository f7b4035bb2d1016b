"""The open loop: requests are due at fixed times, and their latencies count from then."""

from __future__ import annotations

import pytest

from loadtest.benchmarks.gateway.schedule import Schedule


def test_requests_are_due_at_even_distances_whatever_the_answers_are() -> None:
    schedule = Schedule(10, 0.35)
    due = []
    while schedule.is_due(1.0):
        due.append(schedule.start())
    assert due == [0.0, 0.1, 0.2], "a request that would be due after the end is not sent"


def test_a_request_is_not_due_before_its_time() -> None:
    schedule = Schedule(10, 1.0)
    schedule.start()
    assert not schedule.is_due(0.05)
    assert schedule.wait_s(0.05) == 0.05
    assert schedule.is_due(0.1)
    assert schedule.wait_s(0.3) == 0.0, "the next request is already late"


def test_a_latency_counts_from_the_moment_when_the_request_was_due() -> None:
    """A server that answers each request 0.25 s after it was sent, but stalls first: a closed loop would see 0.25 s."""
    schedule = Schedule(4, 1.0)
    finished_at = 0.0
    while schedule.is_due(2.0):
        due_at = schedule.start()
        sent_at = max(1.0, finished_at)  # there was no free connection before
        finished_at = sent_at + 0.25
        schedule.finish(due_at, finished_at, is_good=True)
    assert schedule.latencies_until(finished_at) == [1.25, 1.25, 1.25, 1.25]


def test_a_request_without_an_answer_counts_with_the_time_that_it_has_waited() -> None:
    schedule = Schedule(2, 2.0)
    answered = schedule.start()
    schedule.start()  # sent at 0.5 and never answered; those due at 1.0 and 1.5 find no connection
    schedule.finish(answered, 0.25, is_good=True)
    assert schedule.latencies_until(4.0) == [0.25, 3.5, 3.0, 2.5]
    assert schedule.share_good == 0.25
    assert not schedule.is_done


def test_refusals_have_no_latency_because_they_would_make_the_server_look_fast() -> None:
    schedule = Schedule(2, 1.0)
    schedule.finish(schedule.start(), 0.5, is_good=True)
    schedule.finish(schedule.start(), 0.51, is_good=False)
    assert schedule.latencies_until(1.0) == [0.5]
    assert schedule.share_good == 0.5
    assert schedule.is_done


def test_only_answers_that_arrive_during_the_load_count_for_the_reached_rate() -> None:
    schedule = Schedule(2, 2.0)
    for answered_at in (0.9, 1.9, 1.99, 2.0):
        schedule.finish(schedule.start(), answered_at, is_good=True)
    assert schedule.reached == 1.5


def test_requests_of_the_lead_in_are_sent_but_not_counted() -> None:
    schedule = Schedule(2, 1.0, lead_in_s=1.0)
    for answered_at, is_good in ((0.8, True), (0.9, False), (1.1, True)):
        schedule.finish(schedule.start(), answered_at, is_good=is_good)
    assert schedule.start() == 1.5 and not schedule.is_due(9.0)
    assert schedule.latencies_until(2.0) == pytest.approx([0.1, 0.5])
    assert (schedule.reached, schedule.share_good) == (1.0, 0.5)


def test_a_rate_of_zero_is_done_at_once() -> None:
    schedule = Schedule(0, 1.0)
    assert schedule.is_done and not schedule.is_due(1.0)
    assert schedule.share_good == 1.0
