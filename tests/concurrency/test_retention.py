"""Retention: old rows of finished purchases are removed in batches; rows that are still needed stay."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any
from uuid import UUID, uuid4

import pytest
from django.conf import settings
from django.db import connection
from kafka import KafkaProducer
from redis import Redis

from gateway import purchase_status
from gateway.admission_script import SINCE_KEY
from gateway.signed_positions import SignedPosition
from inventory import gate, sale_commands
from inventory import sweep as beat
from inventory.models import Stock
from notifications import sweep as of_notifications
from orders import sweep as duties
from seckill.messaging import kafka_cluster, pruning
from seckill.messaging.pruning import RULES_BELOW_HORIZON, RULES_BY_OWN_TIME, Pruner, is_before_every_log
from seckill.messaging.record_position import RecordPosition
from seckill.messaging.sweep_loop import Sweeps
from seckill.messaging.topics import TOPICS
from seckill.report.sources import database
from seckill.stack.broker_process import BrokerProcess
from tests.gateway_loop import forget_connections, on_loop

NOW = datetime.now(UTC)
OLD = NOW - timedelta(days=40)
FAR_MS = 10**15
DOCS = Path(__file__).parents[2] / "docs" / "retention.md"


@pytest.fixture(autouse=True)
def long_logs(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Other tests ask the brokers."""
    monkeypatch.setattr(pruning, "is_before_every_log", lambda horizon: True)
    gate.redis.cache_clear()
    gate._script.cache_clear()
    yield


def run(statement: str, *parameters: Any) -> list[tuple[Any, ...]]:
    with connection.cursor() as cursor:
        cursor.execute(statement, parameters)
        return list(cursor.fetchall()) if cursor.description else []


def sale(opened: datetime = OLD, *, is_over: bool = True) -> Stock:
    stock = sale_commands.create_sale("Gong", "phone", 10, 100, 1, int(opened.timestamp() * 1000), FAR_MS)
    if is_over:
        sale_commands.set_sale_state(stock.sale_id, "closed")
        Stock.objects.filter(id=stock.id).update(gate_retired=True)
    return stock


def fill(at: datetime, stock: Stock) -> UUID:
    """A finished purchase: a row in each table that has a horizon."""
    request, order = uuid4(), uuid4()
    at_ms, number = int(at.timestamp() * 1000), request.int % 2**60
    run("INSERT INTO inventory_decided VALUES (%s, 'ann', %s, 'phone', 1, 'RESERVED', 1, %s, %s, %s, 'c', 't', 0, %s)",
        request, stock.sale_id, at_ms, at_ms, at_ms, number)  # fmt: skip
    run("INSERT INTO inventory_redelivery (request_id, cluster_id, topic_id, partition, record_offset, at) "
        "VALUES (%s, 'c', 't', 0, %s, %s)", request, number, at)  # fmt: skip
    run("INSERT INTO inventory_settled (event_id, kind, request_id, posted, at) VALUES (%s, 'OrderPaid', %s, true, %s)",
        uuid4(), request, at)  # fmt: skip
    run("INSERT INTO gateway_outcome (request_id, user_id, sale_id, state, rank, may_buy_again, updated_at) "
        "VALUES (%s, 'ann', %s, 'PAID', 30, false, %s)", request, stock.sale_id, at)  # fmt: skip
    run("INSERT INTO streams_dead_letter (consumer_group, cluster_id, topic, topic_id, partition, record_offset, "
        "timestamp_ms, headers, reason, attempts, replays, state, note, died_at, closed_at) VALUES "
        "('inventory', 'c', 't', 't', 0, %s, 0, '[]', '', 1, 0, 'replayed', '', %s, %s)", number, at, at)  # fmt: skip
    run("INSERT INTO streams_divert (topic, pinned_users, users, began_at) VALUES ('t', '', 0, %s)", at)
    run("INSERT INTO orders_order (id, request_id, user_id, sale_id, sku, quantity, amount, state, placed_at, "
        "pay_before, cause) VALUES (%s, %s, 'ann', %s, 'phone', 1, 100, 'PAID', %s, %s, %s)",
        order, request, stock.sale_id, at, at, uuid4())  # fmt: skip
    run("INSERT INTO orders_transition (order_id, before, after, event_id, at) VALUES (%s, '', 'PAID', %s, %s)",
        order, uuid4(), at)  # fmt: skip
    run("INSERT INTO orders_read_decision (event_id, request_id, decision, at) VALUES (%s, %s, 'RESERVED', %s)",
        uuid4(), request, at)  # fmt: skip
    run("INSERT INTO orders_callback VALUES (%s, %s, 'captured', 1, %s)", str(request), uuid4(), at)
    run("INSERT INTO orders_discrepancy (payment_id, kind, order_id, amount, state, found_at, settled_at) "
        "VALUES (%s, 'k', '', 1, 'settled', %s, %s)", uuid4(), at, at)  # fmt: skip
    run("INSERT INTO notifications_delivery (event_id, channel, user_id, text, state, attempts, due_at, done_at, "
        "last_fault) VALUES (%s, 'sms', 'ann', '', 'done', 1, %s, %s, '')", uuid4(), at, at)  # fmt: skip
    return request


TABLES = [rule.table for rules in RULES_BELOW_HORIZON.values() for rule in rules]


def left() -> dict[str, int]:
    return {table: run(f"SELECT count(*) FROM {table}")[0][0] for table in TABLES}


def prune(rounds: int = 1) -> None:
    """All three sweeps, twice, because the first run does not know yet what the other services need."""
    pruners = [Pruner(service) for service in pruning.SERVICES]
    for _ in range(rounds + 1):
        for pruner in pruners:
            pruner.run_once()


def test_old_rows_of_finished_purchases_are_removed_and_new_ones_stay() -> None:
    stock = sale()
    fill(OLD, stock)
    new = fill(NOW, stock)
    prune()
    assert left() == dict.fromkeys(TABLES, 1)
    assert run("SELECT request_id FROM inventory_decided") == [(new,)]
    assert run("SELECT count(*) FROM orders_order") == [(2,)], "orders stay"


def test_rows_are_removed_in_batches_until_none_is_left(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pruning, "ROWS_MAX", 3)
    stock = sale()
    for _ in range(8):
        fill(OLD, stock)
    prune()
    assert all(2 <= count <= 5 for count in left().values())
    rounds = [Pruner("orders").run_once() for _ in range(4)]
    assert rounds[0] and not rounds[-1], "a full batch: run again at once"


@pytest.mark.parametrize(
    "unfinished",
    [
        "sale is on",
        "units are reserved",
        "UPDATE orders_order SET state = 'PENDING_PAYMENT'",
        "INSERT INTO orders_payment (id, order_id, amount, state, provider_reference, opened_at) "
        "SELECT id, id, 1, 'refunding', '', placed_at FROM orders_order",
        "UPDATE orders_discrepancy SET state = 'owed'",
        "UPDATE streams_dead_letter SET state = 'open'",
        "INSERT INTO streams_outbox (writer, topic, key, event_id, value, headers, created_at) "
        "SELECT 'orders', 't', 'k', event_id, '', '{}', at FROM orders_transition",
        "UPDATE notifications_delivery SET state = 'due'",
    ],
)
def test_nothing_is_removed_while_something_older_is_unfinished(unfinished: str) -> None:
    stock = sale(is_over=unfinished != "sale is on")
    fill(OLD, stock)
    if unfinished == "units are reserved":
        Stock.objects.filter(id=stock.id).update(reserved=1)
    elif unfinished != "sale is on":
        run(unfinished)
    prune()
    assert left() == dict.fromkeys(TABLES, 1)


def test_nothing_is_removed_before_every_service_has_recorded_what_it_needs() -> None:
    fill(OLD, sale())
    for _ in range(3):
        Pruner("inventory").run_once()
        Pruner("orders").run_once()
    assert left() == dict.fromkeys(TABLES, 1)


def test_retention_can_be_off_and_is_never_shorter_than_that_of_the_topics(monkeypatch: pytest.MonkeyPatch) -> None:
    stock = sale()
    fill(OLD, stock)
    fill(NOW - timedelta(days=pruning.LOG_DAYS), stock)
    monkeypatch.setattr(settings, "ENVIRONMENT", replace(settings.ENVIRONMENT, retention_days=0))
    prune()
    assert left() == dict.fromkeys(TABLES, 2)
    monkeypatch.setattr(settings, "ENVIRONMENT", replace(settings.ENVIRONMENT, retention_days=1))
    prune()
    assert left() == dict.fromkeys(TABLES, 1)


def test_an_active_divert_stays() -> None:
    stock = sale()
    fill(OLD, stock)
    run("INSERT INTO streams_slot_map (topic, version, partition_of, moving, diverted, transition) "
        "SELECT 't', 1, '[]', '{}', id, '' FROM streams_divert")  # fmt: skip
    prune()
    assert left()["streams_divert"] == 1


def test_leases_sessions_and_audit_entries_have_their_own_retention() -> None:
    days, hours = "now() - make_interval(days => n)", "now() + make_interval(hours => n)"
    lease = f"SELECT gen_random_uuid(), 't', 'n', 1, 12, {days} FROM generate_series(0, 3) AS n"
    run(f"INSERT INTO streams_producer_lease {lease}")
    run(f"INSERT INTO django_session SELECT n::text, '', {hours} FROM generate_series(-2, 1) AS n")
    entry = f"SELECT {days}, 'a', 'v', 't', '{{}}', 'done' FROM unnest(ARRAY[200, 400, 600]) AS n"
    run(f"INSERT INTO audit_entry (at, actor, verb, target, arguments, result) {entry}")
    Pruner("inventory").run_once()
    assert run("SELECT count(*) FROM streams_producer_lease") == [(1,)]
    assert run("SELECT count(*) FROM django_session WHERE expire_date < now()") == [(0,)]
    assert run("SELECT count(*) FROM audit_entry") == [(1,)]


def test_the_report_says_that_rows_of_a_sale_were_removed() -> None:
    fill(OLD, sale())
    prune()
    password = f":{settings.DATABASES['default']['PASSWORD']}" if settings.DATABASES["default"]["PASSWORD"] else ""
    address = settings.DATABASES["default"]
    url = f"postgresql://{address['USER']}{password}@127.0.0.1:{address['PORT']}/{address['NAME']}"
    assert any("were pruned, and 1 sales opened before" in fault for fault in database.read_snapshot(url).faults)


def test_a_pruned_purchase_is_not_shown_as_queued(redis: Redis) -> None:
    forget_connections()
    redis.set(SINCE_KEY, 1)
    old_ms = int((NOW - timedelta(days=40)).timestamp() * 1000)
    assert (
        on_loop(
            purchase_status.fetch_status(
                uuid4(), SignedPosition("ann", RecordPosition("purchase.requests", 0, 5), old_ms)
            )
        )
        is None
    )
    new = on_loop(
        purchase_status.fetch_status(
            uuid4(), SignedPosition("ann", RecordPosition("purchase.requests", 0, 5), int(NOW.timestamp() * 1000))
        )
    )
    assert new is not None and new.outcome is None, "the control"


def test_no_row_is_removed_while_a_topic_may_redeliver_its_event(broker: BrokerProcess) -> None:
    kafka_cluster.create_topics(broker.address)
    topic = TOPICS["order.events"].name
    producer = KafkaProducer(bootstrap_servers=broker.address)
    try:
        before = datetime.now(UTC) - timedelta(days=9)
        producer.send(topic, b"x", partition=3, timestamp_ms=int((before + timedelta(days=1)).timestamp() * 1000)).get(
            30
        )
        assert is_before_every_log(before)
        assert not is_before_every_log(before + timedelta(days=2))
    finally:
        producer.close()


def test_nothing_is_removed_while_the_brokers_do_not_answer(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pruning, "BOOTSTRAP_MS_MAX", 200)
    environment = replace(settings.ENVIRONMENT, kafka_bootstrap_servers="127.0.0.1:1")
    monkeypatch.setattr(settings, "ENVIRONMENT", environment)
    assert not is_before_every_log(NOW)


@pytest.mark.parametrize("sweep", [beat.create_sweeps, duties.create_sweeps, of_notifications.create_sweeps])
def test_every_sweep_prunes_on_its_own_thread(sweep: Callable[[], Sweeps]) -> None:
    assert any("retention" in each._name for each in sweep()._sweeps)


def test_the_page_names_every_table_with_its_retention() -> None:
    text = DOCS.read_text()
    rules = [rule for table in (RULES_BELOW_HORIZON, RULES_BY_OWN_TIME) for rules in table.values() for rule in rules]
    named = re.findall(r"^\| `(\w+)`", text, re.MULTILINE)
    assert {rule.table for rule in rules} <= set(named)
    assert "SECKILL_RETENTION_DAYS" in text
