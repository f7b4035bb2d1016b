"""Shell: three nodes of Apache Kafka as child processes, each a broker and a controller, to compare with."""

from __future__ import annotations

import subprocess
from collections.abc import Mapping
from pathlib import Path

from loadtest.kafka_jars import classpath, java
from seckill.stack.broker_cluster import CLUSTER_ID, BrokerCluster, ClusterNode


class ApacheKafkaNode(ClusterNode):
    jvm: tuple[str, ...] = ()
    """Options of the Java machine; none: those that suit tests, with a small heap."""

    @property
    def _properties(self) -> Path:
        return self.folder / "server.properties"

    def command(self) -> list[str]:
        if self.jvm:
            return ["java", *self.jvm, "-cp", classpath(), "kafka.Kafka", str(self._properties)]
        return java("kafka.Kafka", self._properties, heap="512m")

    def format(self, *, founder: bool) -> None:
        self.folder.mkdir(parents=True, exist_ok=True)
        settings = {
            "process.roles": "broker,controller",
            "log.dirs": str(self.data),
            "offsets.topic.num.partitions": "12",
            "group.initial.rebalance.delay.ms": "0",
            "group.min.session.timeout.ms": "1000",
            **self.settings,
        }
        self._properties.write_text("".join(f"{name}={value}\n" for name, value in settings.items()))
        subprocess.run(
            java("kafka.tools.StorageTool", "format", "-t", CLUSTER_ID, "-c", self._properties),
            check=True,
            capture_output=True,
            timeout=60,
        )


class ApacheKafkaCluster(BrokerCluster):
    def make_node(
        self, number: int, folder: Path, settings: Mapping[str, str], port: int, controller_port: int
    ) -> ClusterNode:
        return ApacheKafkaNode(number, folder, settings, port, controller_port)
