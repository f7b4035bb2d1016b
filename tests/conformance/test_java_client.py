"""The Java client, the reference implementation of the protocol: JavaClient.java runs, and its output is checked
here."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from loadtest.kafka_jars import java
from seckill.stack.broker_process import BrokerProcess
from tests.conformance.peer import NODE_IDS

pytestmark = pytest.mark.needs("java", "mvn")

SOURCE = Path(__file__).with_name("JavaClient.java")


def facts(broker: BrokerProcess, journey: str, topic: str) -> dict[str, str]:
    command = java(SOURCE, journey, broker.address, topic)
    result = subprocess.run(command, capture_output=True, text=True, timeout=100)
    assert result.returncode == 0, result.stdout[-1500:] + result.stderr[-3000:]
    return dict(line.split(" ", 1) for line in result.stdout.splitlines())


@pytest.mark.parametrize("journey", ["produce", "idempotent"])
def test_records_of_all_codecs_are_delivered_in_order(broker: BrokerProcess, topic: str, journey: str) -> None:
    assert facts(broker, journey, topic) == {
        "told-none": "0-999",
        "told-gzip": "1000-1999",
        "told-snappy": "2000-2999",
        "told-lz4": "3000-3999",
        "told-zstd": "4000-4999",
        "read": "5000",
        "in-order": "true",
        "at-1500": "500",
        "end": "5000",
    }


def test_a_cooperative_group_revokes_only_partitions_that_move(broker: BrokerProcess, topic: str) -> None:
    assert facts(broker, "cooperative", topic) == {"revoked": "2", "lost": "0", "values": "100", "committed": "100"}


def test_a_static_member_regains_its_partitions_without_a_rebalance(broker: BrokerProcess, topic: str) -> None:
    assert facts(broker, "static", topic) == {"same-partition": "true", "revoked": "0"}


def test_an_administrator_creates_changes_and_deletes_a_topic(broker: BrokerProcess, topic: str) -> None:
    assert facts(broker, "admin", topic) == {
        "nodes": str(len(NODE_IDS)),
        "controller": "true",
        "created-partitions": "3",
        "created-config": "60000",
        "same-id": "true",
        "leader-is-in-sync": "true",
        "partitions": "4",
        "max.message.bytes": "5000",
        "max.message.bytes-source": "DYNAMIC_TOPIC_CONFIG",
        "retention.ms-source": "DEFAULT_CONFIG",
        "earliest": "4",
        "latest": "10",
        "max-timestamp": "9",
        "at-1007": "7",
        "size-is-told": "true",
        "committed": "6 noted",
        "group-state": "Empty",
        "committed-after-delete": "0",
        "still-there": "false",
    }
