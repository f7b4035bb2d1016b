"""A process freezes while it holds a lock. Postgres ends its session, a successor goes on, and its late work fails."""

from __future__ import annotations

import signal
import subprocess
import sys
import threading
from uuid import uuid4

import pytest
from django.db import OperationalError, connection, transaction

from gateway.events import PurchaseRequested
from inventory import gate, reservation, sale_commands
from inventory.locks import lock_stocks
from inventory.models import DecidedRequest
from seckill.config.database import IDLE_IN_TRANSACTION_MS, LOCK_MS
from seckill.messaging import database_clock, offsets
from seckill.messaging.models import ConsumerOffset, OutboxRow
from seckill.messaging.records import Batch, ReceivedRecord
from seckill.stack.broker_process import BrokerProcess
from tests.concurrency.messaging_cast import EFFECTS, claim, make_topic
from tests.concurrency.test_messaging_relay import holders, is_published, process, relaying, say
from tests.services import Services, together, until

FAR_MS = 10**15

SLEEPER = """
import django; django.setup()
import os, signal
from django.db import connection, transaction
from seckill.messaging.models import ConsumerOffset
try:
    with transaction.atomic():
        ConsumerOffset.objects.select_for_update().get()
        ConsumerOffset.objects.update(next_offset=77)
        print("holds", flush=True)
        os.kill(os.getpid(), signal.SIGSTOP)
    print("committed", flush=True)
except Exception as fault:
    print(type(fault).__name__, flush=True)
"""


@pytest.fixture
def frozen(services: Services) -> subprocess.Popen[str]:
    """It holds the row of a claim in an open transaction."""
    claim()
    sleeper = subprocess.Popen(
        [sys.executable, "-c", SLEEPER], env=services.environment(), stdout=subprocess.PIPE, text=True
    )
    assert sleeper.stdout is not None and sleeper.stdout.readline() == "holds\n"
    return sleeper


def test_a_successor_takes_the_claim_of_a_frozen_process_and_its_late_commit_fails(
    frozen: subprocess.Popen[str],
) -> None:
    def is_claimed() -> bool:
        try:
            return claim().epoch == 2
        except OperationalError:
            return False  # a consumer would retry later and serve its other partitions meanwhile

    with pytest.raises(OperationalError, match="lock timeout"):
        claim()
    until(is_claimed, "the claim to be free")
    frozen.send_signal(signal.SIGCONT)
    said, _ = frozen.communicate(timeout=30)
    assert said.split()[0] in ("InternalError", "OperationalError"), "its session has ended"
    assert ConsumerOffset.objects.get().next_offset == 0


def test_every_session_has_timeouts_that_free_the_locks_of_a_lost_host() -> None:
    with connection.cursor() as cursor:
        cursor.execute(
            "SELECT name, setting::int FROM pg_settings WHERE name IN ('lock_timeout', 'tcp_user_timeout',"
            " 'idle_in_transaction_session_timeout', 'client_connection_check_interval', 'tcp_keepalives_idle')"
        )
        found = dict(cursor.fetchall())
    assert found["lock_timeout"] == LOCK_MS
    assert found["idle_in_transaction_session_timeout"] == IDLE_IN_TRANSACTION_MS
    assert all(found.values()), f"each of these must have a limit: {found}"


def test_a_frozen_relay_loses_the_lock_and_the_next_one_leads(
    broker: BrokerProcess, services: Services, monkeypatch: pytest.MonkeyPatch
) -> None:
    topic = make_topic(broker.address)
    first = process(services)
    try:
        say(topic, range(5))
        until(is_published, "the first relay to lead")
        first.send_signal(signal.SIGSTOP)
        say(topic, range(5, 10))
        with relaying(broker):
            until(is_published, "the second relay to lead")
            assert holders() == 1
    finally:
        first.kill()
        first.wait()
    assert not OutboxRow.objects.filter(writer=EFFECTS).exists()


def test_a_free_claim_is_taken_at_once() -> None:
    """The control: no process holds it."""
    assert [claim().epoch for _ in range(3)] == [1, 2, 3]
    with transaction.atomic():
        offsets.advance(claim(), 0, 5)


def test_a_request_whose_deadline_passes_during_the_wait_for_the_lock_is_too_late() -> None:
    gate.redis.cache_clear()
    gate._script.cache_clear()
    stock = sale_commands.create_sale("Gong", "phone", 10, 100, 1, 0, FAR_MS)
    deadline_ms = database_clock.now_ms() + 1000
    asked = PurchaseRequested(uuid4(), "late", stock.sale_id, stock.sku, 1, 0, deadline_ms)
    record = ReceivedRecord("purchase.requests", 0, 0, 0, "late", asked.envelope())
    is_locked = threading.Event()

    def hold() -> None:
        with transaction.atomic():
            lock_stocks([stock.id])
            is_locked.set()
            until(lambda: database_clock.now_ms() > deadline_ms, "the deadline to pass")

    def decide() -> None:
        assert is_locked.wait(30)
        with transaction.atomic():
            reservation.decide_batch(Batch("cluster", "topic-id", "purchase.requests", 0, [record]))

    assert together([hold, decide]) == [None, None]
    assert DecidedRequest.objects.get().decision == "TOO_LATE"
