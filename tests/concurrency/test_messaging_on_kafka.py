"""The tests of consume loop, relay and slots that depend most on the broker, run on a real Apache Kafka.

All messaging tests run on Kafka with `TEST_BROKER=kafka`.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import pytest
from django.conf import settings

from seckill.stack.broker_process import BrokerProcess
from tests.concurrency.test_messaging_consume_loop import (
    short_sessions,
    test_a_group_processes_every_record_once_and_commits_to_the_broker,
    test_consumers_that_join_and_leave_hand_over_without_loss_or_repetition,
    test_what_a_kill_loses_or_repeats_under_each_delivery_guarantee,
)
from tests.concurrency.test_messaging_relay import (
    test_published_events_arrive_in_order_per_key_and_their_rows_are_deleted,
)
from tests.concurrency.test_messaging_slots_load import (
    test_slot_moves_under_load_keep_each_users_order,
    topic,
)
from tests.conformance.peer import IS_KAFKA, ApacheKafka

__all__ = [
    "short_sessions",
    "test_a_group_processes_every_record_once_and_commits_to_the_broker",
    "test_slot_moves_under_load_keep_each_users_order",
    "test_consumers_that_join_and_leave_hand_over_without_loss_or_repetition",
    "test_what_a_kill_loses_or_repeats_under_each_delivery_guarantee",
    "test_published_events_arrive_in_order_per_key_and_their_rows_are_deleted",
    "topic",
]

pytestmark = [
    pytest.mark.needs("java", "mvn"),
    pytest.mark.skipif(IS_KAFKA, reason="all tests already run on Kafka"),
]


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[BrokerProcess]:
    with ApacheKafka(tmp_path_factory.mktemp("kafka"), {"auto.create.topics.enable": "false"}) as process:
        before = settings.ENVIRONMENT
        settings.ENVIRONMENT = replace(before, kafka_bootstrap_servers=process.address)
        yield process
        settings.ENVIRONMENT = before
