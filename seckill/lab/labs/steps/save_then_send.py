"""Lab 4. A shop stores an order and is killed before it announces it. Broken: save, then send. Fixed: the outbox."""

from __future__ import annotations

import os
import signal
import threading
from uuid import uuid4

from django.db import connection, transaction

from seckill.lab.labs.child import Step
from seckill.lab.labs.lab import Bar, Chart, Observation, Variant
from seckill.lab.labs.steps import log_of_numbers as log
from seckill.messaging import outbox
from seckill.messaging.models import OutboxRow
from seckill.messaging.relay import Relay
from seckill.stack.child_processes import wait_until

ORDERS = 60
DIES_AFTER = (15, 30, 45)
KILLED = -signal.SIGKILL


def save_then_send(topic: str, number: int) -> None:
    _insert_order(number)  # autocommit: the order is durable from here on
    _die_at(number)
    with log.producer(os.environ["KAFKA_BOOTSTRAP_SERVERS"]) as sending:
        sending.send(topic, value=log.value(number)).get(30)


def save_with_outbox(topic: str, number: int) -> None:
    with transaction.atomic():
        _insert_order(number)
        outbox.insert_rows(log.GROUP, [outbox.OutboxInsert(topic, "user", uuid4(), log.value(number), {})])
    _die_at(number)


def _insert_order(number: int) -> None:
    with connection.cursor() as cursor:
        cursor.execute("INSERT INTO lab_order VALUES (%s)", [number])


def _die_at(number: int) -> None:
    """The worst moment: after the commit, before anything else."""
    if number in DIES_AFTER:
        os.kill(os.getpid(), signal.SIGKILL)


def work(step: Step, role: str) -> None:
    """The shop. After a restart it continues behind its last order, because that one is stored."""
    variant, topic = role.split(":")
    store = save_then_send if variant == Variant.BROKEN else save_with_outbox
    for number in range(len(_orders()), ORDERS):
        store(topic, number)


def _orders() -> list[int]:
    with connection.cursor() as cursor:
        cursor.execute("SELECT number FROM lab_order ORDER BY number")
        return [int(number) for (number,) in cursor.fetchall()]


def run(step: Step, variant: Variant) -> Observation:
    with connection.cursor() as cursor:
        cursor.execute("CREATE TABLE lab_order (number int PRIMARY KEY)")
    topic = log.create_topic(step.bootstrap_servers)
    relay = Relay((log.GROUP,), step.bootstrap_servers)
    publishing = threading.Thread(target=relay.run)
    publishing.start()
    kills = 0
    try:
        while (code := step.start_worker(f"{variant}:{topic.name}").wait()) == KILLED:
            kills += 1
            step.tell(f"kill -9 of the shop after order {len(_orders())}")
        if code:
            raise RuntimeError(f"the shop ended with {code}; see {step.folder}/workers.log")
        wait_until(lambda: not OutboxRow.objects.filter(writer=log.GROUP).exists(), "the relay to publish all rows")
    finally:
        relay.stop()
        publishing.join()
    saved, sent = _orders(), log.read_all(step.bootstrap_servers, topic.name)
    lost, repeated = log.lost_and_repeated(saved, sent)
    bars = (
        Bar("orders stored", len(saved)),
        Bar("orders announced", len(set(sent))),
        Bar("never announced", lost, True),
    )
    return Observation(
        lost,
        {"times that the shop was killed": kills, "orders stored": len(saved), "messages in the topic": len(sent),
         "sent twice": repeated},
        Chart(y="orders", bars=bars),
    )  # fmt: skip
