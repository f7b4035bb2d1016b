"""Three nodes of Apache Kafka instead of ours, to check the tests themselves (`TEST_BROKER=kafka`)."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from loadtest.kafka_cluster import ApacheKafkaCluster
from seckill.stack.broker_cluster import BrokerCluster
from tests.conformance.peer import IS_KAFKA


def make_cluster(
    folder: Path, settings: Mapping[str, str] | None = None, *, has_network: bool = False
) -> BrokerCluster:
    """A cluster that is not started yet: mqcore, unless `TEST_BROKER` says otherwise."""
    make = ApacheKafkaCluster if IS_KAFKA else BrokerCluster
    return make(folder, settings, has_network=has_network)
