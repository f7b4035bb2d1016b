"""The circuit breaker of a channel on a real Postgres, shared by all workers."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from uuid import uuid4

import pytest

from notifications import channel_breaker
from notifications.channel_breaker import CallPermit
from notifications.delivery import deliver
from seckill.resilience.circuit_breaker import BreakerState
from tests.concurrency.notifications_cast import Phones, age_breakers, attempt, due, fail_until_open, running_phones
from tests.services import together


@pytest.fixture
def phones(tmp_path: Path) -> Iterator[Phones]:
    with running_phones(tmp_path) as phones:
        yield phones


def test_a_sink_that_keeps_failing_is_not_called_and_the_other_channels_are(phones: Phones) -> None:
    fail_until_open(phones)
    assert channel_breaker.read_status("sms").state is BreakerState.OPEN
    assert attempt(due("late")) is None
    assert attempt(due("late", "email")) == attempt(due("late", "push")) == "done"
    assert phones.counts() == {"refused": channel_breaker.FAILURES_MAX, "effect": 2}


def test_in_half_open_one_of_five_workers_gets_the_probe(phones: Phones) -> None:
    fail_until_open(phones)
    age_breakers(channel_breaker.OPEN_SECONDS_MAX)
    assert channel_breaker.read_status("sms").state is BreakerState.HALF_OPEN
    permits = together([partial(channel_breaker.request_permit, "sms")] * 5)
    assert Counter(permits) == {CallPermit.PROBE: 1, CallPermit.DENIED: 4}


def test_a_failed_probe_opens_the_breaker_for_longer_and_a_successful_one_closes_it(phones: Phones) -> None:
    fail_until_open(phones)
    age_breakers(channel_breaker.OPEN_SECONDS_MAX)
    assert attempt(due("first")) == "due"
    assert channel_breaker.read_status("sms") == (BreakerState.OPEN, channel_breaker.FAILURES_MAX + 1)
    age_breakers(channel_breaker.OPEN_SECONDS_MAX)
    phones.behave("sms", "ok")
    assert attempt(due("second")) == "done"
    assert channel_breaker.read_status("sms") == (BreakerState.CLOSED, 0)


def test_a_probe_with_nothing_to_send_is_returned(phones: Phones) -> None:
    fail_until_open(phones)
    age_breakers(channel_breaker.OPEN_SECONDS_MAX)
    assert deliver(uuid4(), "sms") is None
    assert channel_breaker.request_permit("sms") is CallPermit.PROBE


def test_failures_between_successes_do_not_open_the_breaker(phones: Phones) -> None:
    for number in range(channel_breaker.FAILURES_MAX * 2):
        phones.behave("sms", "fail" if number % 2 else "ok")
        attempt(due(f"user-{number}"))
    assert channel_breaker.read_status("sms").state is BreakerState.CLOSED
