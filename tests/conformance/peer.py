"""Shell: Apache Kafka instead of our broker, to check the tests themselves.

`TEST_BROKER=kafka pytest tests/conformance` runs the same tests against Apache Kafka. If one fails there too, the test
is wrong and not the broker. `TEST_BROKER=kafka pytest tests/concurrency tests/journeys` runs the sale on it.
`TEST_BROKER=cluster` runs the tests against three of our brokers, with three replicas of each topic by default.
"""

from __future__ import annotations

import os
import subprocess
from collections.abc import Mapping
from pathlib import Path
from typing import Self

from confluent_kafka import KafkaException
from confluent_kafka.admin import AdminClient

from loadtest.kafka_jars import java
from seckill.stack.broker_cluster import BrokerCluster
from seckill.stack.broker_network import NODES
from seckill.stack.broker_process import BrokerProcess
from seckill.stack.child_processes import free_port
from seckill.stack.health_checks import is_broker

IS_KAFKA = os.environ.get("TEST_BROKER") == "kafka"
IS_CLUSTER = os.environ.get("TEST_BROKER") == "cluster"
NODE_IDS = NODES if IS_CLUSTER else (0,)


def make_broker(folder: Path, settings: Mapping[str, str] | None = None) -> BrokerProcess:
    """A broker that is not started yet: mqcore, unless `TEST_BROKER` says otherwise."""
    if IS_CLUSTER:
        return ThreeBrokers(folder, settings)
    return ApacheKafka(folder, settings) if IS_KAFKA else BrokerProcess(folder, settings)


class ThreeBrokers(BrokerProcess):
    """A cluster in place of one broker. Tests that look at a port or a folder see the first broker's."""

    def __init__(self, folder: Path, settings: Mapping[str, str] | None = None) -> None:
        self.cluster = BrokerCluster(folder, settings)
        self.first = self.cluster.nodes[1]
        super().__init__(self.first.folder, self.first.settings, self.first.port)

    @property
    def address(self) -> str:
        return self.cluster.address

    @property
    def pid(self) -> int:
        return self.first.pid

    @property
    def log(self) -> str:
        return self.cluster.log

    def start(self) -> Self:
        self.cluster.start()
        return self

    def stop(self) -> int:
        self.cluster.stop()
        return 0

    def kill(self) -> None:
        self.cluster.kill()

    def has_crashed(self) -> bool:
        return any(node.has_crashed() for node in self.cluster.nodes.values())


class ApacheKafka(BrokerProcess):
    """One process that is broker and controller."""

    def __init__(self, folder: Path, settings: Mapping[str, str] | None = None) -> None:
        super().__init__(folder, settings)
        self._controller_port = free_port()

    @property
    def _properties(self) -> Path:
        return self.folder / "server.properties"

    def command(self) -> list[str]:
        return java("kafka.Kafka", self._properties, heap="512m")

    def start(self) -> Self:
        if not self._properties.exists():
            self._format()
        return super().start()

    def is_ready(self) -> bool:
        if not is_broker(self.port):
            return False
        try:
            admin = AdminClient({"bootstrap.servers": self.address, "log_level": 0})
            return len(admin.list_topics(timeout=5).brokers) == 1
        except KafkaException:
            return False

    def _format(self) -> None:
        self.folder.mkdir(parents=True, exist_ok=True)
        settings = {
            "process.roles": "broker,controller",
            "node.id": "0",
            "controller.quorum.voters": f"0@127.0.0.1:{self._controller_port}",
            "listeners": f"PLAINTEXT://{self.address},CONTROLLER://127.0.0.1:{self._controller_port}",
            "controller.listener.names": "CONTROLLER",
            "log.dirs": str(self.data),
            "offsets.topic.replication.factor": "1",
            "offsets.topic.num.partitions": "12",
            "transaction.state.log.replication.factor": "1",
            "transaction.state.log.min.isr": "1",
            "share.coordinator.state.topic.replication.factor": "1",
            "share.coordinator.state.topic.min.isr": "1",
            "group.initial.rebalance.delay.ms": "0",
            "group.min.session.timeout.ms": "1000",
            **self.settings,
        }
        self._properties.write_text("".join(f"{name}={value}\n" for name, value in settings.items()))
        tool = "kafka.tools.StorageTool"
        identity = subprocess.run(java(tool, "random-uuid"), check=True, capture_output=True, text=True, timeout=60)
        subprocess.run(
            java(tool, "format", "-t", identity.stdout.split()[-1], "-c", self._properties),
            check=True,
            capture_output=True,
            timeout=60,
        )
