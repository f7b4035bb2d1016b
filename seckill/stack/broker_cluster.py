"""Shell: three brokers as child processes of a test or a benchmark; each can be stopped, killed and started again."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from types import TracebackType
from typing import Self

from seckill.stack.broker_network import NODES, PORTS_COUNT, BrokerNetwork, NetworkPorts
from seckill.stack.broker_process import BrokerFault, BrokerProcess
from seckill.stack.child_processes import free_port_run

CLUSTER_ID = "c2Vja2lsbC1jbHVzdGVyMQ"
FORMAT_SECONDS_MAX = 30.0


class ClusterNode(BrokerProcess):
    """One broker that is also a controller."""

    def __init__(self, number: int, folder: Path, settings: Mapping[str, str], port: int, controller_port: int) -> None:
        super().__init__(folder, settings, port)
        self.number = number
        self.controller_port = controller_port
        self.settings |= {
            "node.id": str(number),
            "listeners": f"PLAINTEXT://{self.address},CONTROLLER://127.0.0.1:{controller_port}",
            "controller.listener.names": "CONTROLLER",
        }

    def format(self, *, founder: bool) -> None:
        """Make the data folder of a node. The founder's has the first version of the metadata."""
        self.folder.mkdir(parents=True, exist_ok=True)
        command = [sys.executable, "-m", "mqcore", "format", "--data", str(self.data), "--cluster-id", CLUSTER_ID]
        command += ["--node-id", str(self.number), *(["--founder"] if founder else [])]
        done = subprocess.run(command, capture_output=True, text=True, timeout=FORMAT_SECONDS_MAX, check=False)
        if done.returncode:
            raise BrokerFault(f"the folder of node {self.number} could not be formatted: {done.stderr}")


class BrokerCluster:
    """`start` formats the folders when there are none yet. With `has_network`, the brokers reach one another through
    `network`, which can be cut."""

    host = "127.0.0.1"

    def __init__(
        self, folder: Path, settings: Mapping[str, str] | None = None, first_port: int | None = None, *,
        has_network: bool = False,
    ) -> None:  # fmt: skip
        self.folder = folder
        first = first_port or free_port_run(2 * len(NODES) + PORTS_COUNT)
        ports = {number: (first + number - 1, first + len(NODES) + number - 1) for number in NODES}
        voters = ",".join(f"{number}@{self.host}:{controller}" for number, (_, controller) in ports.items())
        shared = {
            "controller.quorum.voters": voters,
            "default.replication.factor": "3",
            "min.insync.replicas": "2",
            **(settings or {}),
        }
        self.nodes = {n: self.make_node(n, folder / str(n), shared, *ports[n]) for n in NODES}
        controllers = {number: controller for number, (_, controller) in ports.items()}
        self.network = BrokerNetwork(self.network_ports(first + 2 * len(NODES)), controllers)
        self._has_network = has_network
        if has_network:
            for node in self.nodes.values():
                node.settings |= self.network.ports.settings(node.number, node.port, node.controller_port)

    def make_node(
        self, number: int, folder: Path, settings: Mapping[str, str], port: int, controller_port: int
    ) -> ClusterNode:
        return ClusterNode(number, folder, settings, port, controller_port)

    def network_ports(self, first: int) -> NetworkPorts:
        return NetworkPorts(first)

    @property
    def address(self) -> str:
        return ",".join(node.address for node in self.nodes.values())

    def start(self) -> Self:
        if self._has_network:
            self.network.start()
        for number, node in self.nodes.items():
            if not node.data.exists():
                node.format(founder=number == NODES[0])
            node.launch()
        for node in self.nodes.values():
            node.wait_until_ready()
        return self

    def stop(self) -> None:
        for node in self.nodes.values():
            node.stop()
        self.network.close()

    def kill(self) -> None:
        for node in self.nodes.values():
            node.kill()
        self.network.close()

    @property
    def log(self) -> str:
        return "\n".join(f"── node {number}\n{node.log[-4000:]}" for number, node in self.nodes.items())

    def __enter__(self) -> Self:
        return self.start()

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self.stop()
