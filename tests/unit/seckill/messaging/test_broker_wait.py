"""A process that starts during a broker outage waits, logs that once, and gives up after a limit."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable

import pytest
from kafka.errors import KafkaConfigurationError, KafkaTimeoutError

from seckill.messaging import broker_wait
from seckill.messaging.broker_wait import wait_for_broker


@pytest.fixture(autouse=True)
def no_pause(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(broker_wait, "RETRY_SECONDS", 0.0)


def failing(times: int, fault: Exception) -> tuple[Callable[[], str], list[None]]:
    """A connection that fails this many times, and its attempts."""
    attempts: list[None] = []

    def connect() -> str:
        attempts.append(None)
        if len(attempts) <= times:
            raise fault
        return "connected"

    return connect, attempts


def test_it_retries_until_the_broker_answers_and_logs_the_outage_once(caplog: pytest.LogCaptureFixture) -> None:
    connect, attempts = failing(3, KafkaTimeoutError("Unable to bootstrap"))
    with caplog.at_level(logging.WARNING):
        assert wait_for_broker(connect, threading.Event()) == "connected"
    assert len(attempts) == 4
    assert [record.getMessage() for record in caplog.records] == ["waiting for the broker"]


def test_after_the_limit_the_fault_is_raised(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(broker_wait, "BROKER_WAIT_SECONDS_MAX", 0.0)
    connect, attempts = failing(3, KafkaTimeoutError("Unable to bootstrap"))
    with pytest.raises(KafkaTimeoutError):
        wait_for_broker(connect, threading.Event())
    assert len(attempts) == 1


def test_a_malformed_address_is_raised_at_once() -> None:
    connect, attempts = failing(3, KafkaConfigurationError("bad address"))
    with pytest.raises(KafkaConfigurationError):
        wait_for_broker(connect, threading.Event())
    assert len(attempts) == 1


def test_a_process_that_must_stop_stops_waiting() -> None:
    stopping = threading.Event()

    def connect() -> str:
        stopping.set()
        raise KafkaTimeoutError("Unable to bootstrap")

    assert wait_for_broker(connect, stopping) is None
