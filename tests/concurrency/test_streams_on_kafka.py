"""The loop, the relay and the slots on a real Apache Kafka: of each what depends most on the broker.

All of them run on it with `TEST_BROKER=kafka`.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import pytest
from django.conf import settings

from seckill.stack.broker import BrokerProcess
from tests.concurrency.test_streams_loop import (
    short_sessions,
    test_a_group_reads_everything_once_and_tells_the_broker,
    test_consumers_that_come_and_go_hand_over_cleanly,
    test_what_each_way_of_delivery_makes_of_a_kill,
)
from tests.concurrency.test_streams_relay import test_what_is_published_arrives_in_order_per_key_and_its_rows_are_gone
from tests.concurrency.test_streams_slots import (
    test_a_user_whose_slot_is_moved_to_and_fro_under_load_never_overtakes_himself,
    topic,
)
from tests.conformance.peer import IS_KAFKA, ApacheKafka

__all__ = [
    "short_sessions",
    "test_a_group_reads_everything_once_and_tells_the_broker",
    "test_a_user_whose_slot_is_moved_to_and_fro_under_load_never_overtakes_himself",
    "test_consumers_that_come_and_go_hand_over_cleanly",
    "test_what_each_way_of_delivery_makes_of_a_kill",
    "test_what_is_published_arrives_in_order_per_key_and_its_rows_are_gone",
    "topic",
]

pytestmark = [
    pytest.mark.needs("java", "mvn"),
    pytest.mark.skipif(IS_KAFKA, reason="everything runs on it already"),
]


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[BrokerProcess]:
    with ApacheKafka(tmp_path_factory.mktemp("kafka"), {"auto.create.topics.enable": "false"}) as process:
        before = settings.ENVIRONMENT
        settings.ENVIRONMENT = replace(before, kafka_bootstrap_servers=process.address)
        yield process
        settings.ENVIRONMENT = before
