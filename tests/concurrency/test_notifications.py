"""Deliveries on a real Postgres, with the sandbox's sinks as the other side: one effect each, in order."""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Iterator
from datetime import datetime, timedelta
from functools import partial
from pathlib import Path

import pytest
from django.db import connection
from django.utils import timezone

from notifications import channel_breaker, delivery, sinks
from notifications.delivery import deliver
from notifications.models import Delivery
from seckill.audit.trail import list_entries
from seckill.resilience.circuit_breaker import BreakerState
from tests.concurrency.notifications_cast import Phones, attempt, due, end_leases, end_pauses, running_phones
from tests.services import together


@pytest.fixture
def phones(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Phones]:
    monkeypatch.setattr(sinks, "CALL_SECONDS_MAX", 1.0)
    with running_phones(tmp_path) as phones:
        yield phones


# ── one effect ───────────────────────────────────────────────────────────────────────────────────


def test_six_workers_with_the_same_delivery_send_it_once(phones: Phones) -> None:
    row = due()
    assert Counter(together([partial(attempt, row)] * 6))["done"] == 1
    assert phones.counts() == {"effect": 1}


def test_without_the_lease_three_workers_send_the_same_delivery_three_times(
    phones: Phones, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The control: leases that have already expired. The sink still has one effect, because it recognises the key."""
    row = due()
    all_are_sending = threading.Barrier(3)
    send_message = sinks.send_message

    def send_together(delivery: Delivery, traceparent: str) -> None:
        all_are_sending.wait(30)
        send_message(delivery, traceparent)

    # Not zero: a worker that waited for another's row lock compares with the time at which its own statement began.
    monkeypatch.setattr(delivery, "LEASE", timedelta(seconds=-10))
    monkeypatch.setattr(sinks, "send_message", send_together)
    assert "done" in together([partial(attempt, row)] * 3)
    assert phones.counts() == {"effect": 1, "again": 2}


def test_with_the_lease_no_two_workers_are_sending_at_the_same_time(monkeypatch: pytest.MonkeyPatch) -> None:
    row = due()
    sending: list[Delivery] = []

    def send_message(delivery: Delivery, traceparent: str) -> None:
        sending.append(delivery)
        assert together([partial(attempt, row)] * 3) == [None] * 3

    monkeypatch.setattr(sinks, "send_message", send_message)
    assert attempt(row) == "done"
    assert len(sending) == 1


def test_a_connection_cut_after_the_effect_is_retried_and_has_one_effect(phones: Phones) -> None:
    row = due()
    phones.behave("sms", "cut", times=1)
    assert attempt(row) == "due"
    end_pauses()
    assert attempt(row) == "done"
    assert phones.counts() == {"effect": 1, "again": 1}


def test_no_session_is_in_a_transaction_while_a_sink_is_called(monkeypatch: pytest.MonkeyPatch) -> None:
    """A sink may take seconds, and an open transaction would keep its row locked for as long."""
    sessions: list[str] = []

    def send_message(row: Delivery, traceparent: str) -> None:
        assert not connection.in_atomic_block
        sessions.extend(together([open_transactions])[0])  # type: ignore[arg-type]

    monkeypatch.setattr(sinks, "send_message", send_message)
    assert attempt(due()) == "done"
    assert sessions == []


def open_transactions() -> list[str]:
    """Queries of sessions that are idle in a transaction, seen by another connection."""
    with connection.cursor() as cursor:
        cursor.execute(
            "SELECT query FROM pg_stat_activity WHERE datname = current_database() AND state LIKE 'idle in trans%'"
        )
        return [row[0] for row in cursor.fetchall()]


# ── workers that die or freeze ───────────────────────────────────────────────────────────────────


def test_the_delivery_of_a_worker_that_died_is_sent_when_its_lease_has_expired(
    phones: Phones, monkeypatch: pytest.MonkeyPatch
) -> None:
    row = due()
    with monkeypatch.context() as dying:
        dying.setattr(sinks, "send_message", lambda *_: (_ for _ in ()).throw(SystemExit))
        with pytest.raises(SystemExit):
            attempt(row)
    assert attempt(row) is None, "the lease still lasts"
    end_leases()
    assert attempt(row) == "done"


def test_the_late_result_of_a_frozen_worker_changes_nothing(phones: Phones, monkeypatch: pytest.MonkeyPatch) -> None:
    """It freezes in the call until its lease has expired and another worker has sent the message."""
    row = due()

    def freeze(delivery: Delivery, traceparent: str) -> None:
        monkeypatch.undo()
        end_leases()
        assert together([partial(attempt, row)]) == ["done"]
        raise sinks.SinkDown("the frozen worker's call timed out")

    monkeypatch.setattr(sinks, "send_message", freeze)
    assert attempt(row) == "done"
    row.refresh_from_db()
    assert (row.state, row.attempts, row.last_fault) == ("done", 2, "")


def test_a_lease_lasts_longer_than_a_sink_call_and_a_probe_is_taken_over_later_than_a_call_ends() -> None:
    assert delivery.LEASE.total_seconds() > 2 * sinks.CALL_SECONDS_MAX
    assert channel_breaker.PROBE_SECONDS_MAX > sinks.CALL_SECONDS_MAX


# ── order, retries ───────────────────────────────────────────────────────────────────────────────


def test_a_delivery_waits_for_the_same_users_previous_one_on_that_channel(phones: Phones) -> None:
    first, second, other = due("ann"), due("ann"), due("bob")
    elsewhere = due("ann", "email")
    assert attempt(second) is None
    assert attempt(other) == attempt(elsewhere) == "done"
    result = deliver(first.event_id, first.channel)
    assert result is not None and result.next == second
    assert attempt(second) == "done"


def test_each_failure_is_retried_after_a_longer_pause(phones: Phones) -> None:
    row = due()
    phones.behave("sms", "fail", times=2)
    pauses = []
    for _ in range(2):
        end_pauses()
        row.refresh_from_db()
        before = row.due_at
        assert attempt(row) == "due"
        row.refresh_from_db()
        pauses.append((row.due_at - before).total_seconds())
        assert attempt(row) is None
    assert pauses[1] > pauses[0] >= delivery.RETRY_PAUSE_SECONDS_MIN
    end_pauses()
    assert attempt(row) == "done"


def test_a_message_that_the_sink_rejects_is_given_up_and_the_next_one_is_sent(phones: Phones) -> None:
    first, second = due(), due()
    phones.behave("sms", "refuse", times=1)
    assert attempt(first) == "given_up"
    assert attempt(second) == "done"
    assert channel_breaker.read_status("sms").state is BreakerState.CLOSED


def test_an_operator_resends_a_message_that_was_given_up_and_it_has_one_effect(phones: Phones) -> None:
    row = due()
    phones.behave("sms", "refuse", times=1)
    assert attempt(row) == "given_up"
    delivery.resend_delivery(row.pk)
    assert attempt(row) == "done"
    with pytest.raises(delivery.DeliveryNotGivenUp, match="is done"):
        delivery.resend_delivery(row.pk)
    assert phones.counts()["effect"] == 1
    results = [entry.result.partition(":")[0] for entry in list_entries(verb="messages again")]
    assert results == ["done", "DeliveryNotGivenUp"]


# ── clocks ───────────────────────────────────────────────────────────────────────────────────────


def test_a_worker_whose_clock_is_a_minute_ahead_delays_no_delivery(
    phones: Phones, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Due times, pauses and leases are set by the database's clock."""
    now = timezone.now

    def ahead() -> datetime:
        return now() + timedelta(minutes=1)

    phones.behave("sms", "fail", times=1)
    with monkeypatch.context() as clock:
        clock.setattr(timezone, "now", ahead)
        row = due()
        assert attempt(row) == "due"
    row.refresh_from_db()
    assert row.due_at < now() + timedelta(seconds=delivery.RETRY_PAUSE_SECONDS_MAX)
    end_pauses()
    assert attempt(row) == "done"
    row.refresh_from_db()
    assert row.done_at is not None and row.done_at <= now()
