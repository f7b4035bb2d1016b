"""Shell: the nodes of an Apache Kafka cluster, as the fault cases see brokers."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from seckill.lab.brokers import Brokers
from seckill.lab.kafka_target import NETWORK_COMMAND, KafkaTarget
from seckill.stack.broker_network import NetworkFaults
from seckill.stack.services import Layout

SERVICE = "kafka"
"""The nodes' processes are called kafka.1, kafka.2, kafka.3, and each has the id in its name."""


class KafkaBrokers(Brokers):
    service = SERVICE

    def __init__(self, layout: Layout, kafka: KafkaTarget) -> None:
        super().__init__(layout)
        self._addresses = kafka.address.split(",")
        self.count = len(self._addresses)
        self._nodes = kafka.nodes

    def process(self, number: int) -> str:
        return f"{SERVICE}.{number}"

    def folder(self, number: int) -> Path:
        assert self._nodes is not None
        return self._nodes / str(number) / "data"

    def address(self, number: int) -> str:
        return self._addresses[number - 1]


class KafkaNetwork(NetworkFaults):
    """Between the nodes; the relay belongs to the program that runs them."""

    def __init__(self, kafka: KafkaTarget) -> None:
        super().__init__()
        self._kafka = kafka

    def send(self, command: Mapping[str, object]) -> dict[str, int]:
        return self._kafka.send({"command": NETWORK_COMMAND, "faults": dict(command)})
