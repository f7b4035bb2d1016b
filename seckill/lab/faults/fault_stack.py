"""Shell: the stack that the fault cases break: what they do to its processes and servers."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from redis import Redis

from seckill.lab.brokers import Brokers
from seckill.lab.evidence_folder import EvidenceFolder
from seckill.lab.faults.case import PAYMENT_TTL_S
from seckill.lab.faults.outside_servers import OUTSIDE_SERVERS, OutsideServers
from seckill.lab.kafka_brokers import SERVICE as KAFKA_NODES
from seckill.lab.kafka_brokers import KafkaBrokers, KafkaNetwork
from seckill.lab.kafka_target import KafkaTarget
from seckill.lab.lab_stack import ExperimentFailed
from seckill.lab.sale_database import SaleDatabase
from seckill.resilience import redis_client
from seckill.stack.broker_network import NODES, PORTS_COUNT, BrokerNetwork, NetworkFaults, NetworkPorts
from seckill.stack.child_processes import free_ports_from
from seckill.stack.control import StackFault
from seckill.stack.mqcore_brokers import NETWORK_VARIABLE
from seckill.stack.services import Ports
from seckill.stack.stack_process import StackProcess

WITNESSES = ("sandbox",)
"""Their logs are evidence, so random faults spare them."""


class FaultStack(StackProcess):
    """One stack for all cases that share it. Its ports lie below those that outgoing connections take, so that a server
    gets its own port back after an outage. Each name has as many consecutive ports as there are brokers."""

    def __init__(
        self, folder: Path, first_port: int, payment_ttl_s: int = PAYMENT_TTL_S, outside_servers: str = "", *,
        brokers: int = 1,
        kafka: KafkaTarget | None = None,
    ) -> None:  # fmt: skip
        names = [*Ports().all(), "second gateway"]
        self.ports = dict(zip(names, free_ports_from(first_port, brokers), strict=False))
        self.second_port = self.ports.pop("second gateway")
        self.kind = (payment_ttl_s, outside_servers)
        self.outside: OutsideServers | None = None
        if outside_servers:
            self.outside = OUTSIDE_SERVERS[outside_servers](folder.absolute() / "outside")
        settings = {"SECKILL_PAYMENT_TTL_S": str(payment_ttl_s), "SECKILL_TRUSTED_PROXIES": "127.0.0.1"}
        ports = Ports(**self.ports)
        self._network: NetworkFaults | None = None
        self._own_network: BrokerNetwork | None = None
        if brokers > 1 and kafka is None:
            network = NetworkPorts(next(free_ports_from(self.second_port + brokers, PORTS_COUNT)))
            controllers = {number: ports.controller + number - 1 for number in NODES}
            self._network = self._own_network = BrokerNetwork(network, controllers)
            settings[NETWORK_VARIABLE] = str(network.first)
        if kafka is not None and kafka.nodes is not None:
            self._network = KafkaNetwork(kafka)
        address, config = (None, None) if kafka is None else (kafka.address, kafka.config_file)
        super().__init__(folder, ports, settings, brokers=brokers, kafka=address, kafka_config=config)
        self.kafka = kafka
        self.brokers = Brokers(self.layout) if kafka is None else KafkaBrokers(self.layout, kafka)
        self.evidence_folder = EvidenceFolder(self.evidence)
        self.environment: dict[str, str] = {}
        self.endless_sale = 0

    def start(self) -> None:
        if self.outside is not None:
            self.outside.__enter__()
            self.started_with |= self.outside.settings
        if self.kafka is not None:
            self.kafka.empty_topics()
        if self._own_network is not None:
            self._own_network.start()
        super().start()
        self.environment = self.addresses()

    def stop(self) -> int:
        """Resume frozen processes first, because they could not handle the signal to stop."""
        try:
            for each in self.processes().values() if self.is_running else ():
                if each["pid"]:
                    _signal_group(each["pid"], signal.SIGCONT)
        except StackFault:
            pass  # the stack ended before it could list its processes
        try:
            return super().stop()
        finally:
            if self._own_network is not None:
                self._own_network.close()
            if self.outside is not None:
                self.outside.__exit__(None, None, None)

    @property
    def network(self) -> NetworkFaults:
        """Between the three brokers of the stack, or of the Kafka cluster."""
        assert self._network is not None, "the brokers of this stack have no network that can be cut"
        return self._network

    # ── processes ────────────────────────────────────────────────────────────────────────────────

    def send(self, command: str, **arguments: Any) -> dict[str, Any]:
        """The nodes of a Kafka cluster belong to another program, but cases treat them like processes of the stack."""
        if self.kafka is None or self.kafka.nodes is None:
            return super().send(command, **arguments)
        if service_of(str(arguments.get("name"))) == KAFKA_NODES:
            return self.kafka.send({"command": command, **arguments})
        reply = super().send(command, **arguments)
        if command == "status":
            reply["instances"] = self.kafka.send({"command": "status"})["instances"] + reply["instances"]
        return reply

    def instances(self, service: str) -> list[str]:
        """Names of a service's processes: inventory has inventory.1 and inventory.2."""
        return [name for name in self.processes() if name == service or service_of(name) == service]

    def restarts(self, *services: str) -> int:
        """How often the processes of these services, or of all, were started again."""
        processes = self.processes()
        names = [name for service in services for name in self.instances(service)] if services else list(processes)
        return sum(int(processes[name]["restarts"]) for name in names)

    def restart_with(self, service: str, **variables: str) -> None:
        """Stop a service and start it with these environment variables; the next such call replaces them."""
        self.send("stop", name=service)
        self.send("start", name=service, **({"with": variables} if variables else {}))

    def is_up(self, *services: str) -> bool:
        chosen = {name for service in services for name in self.instances(service)} if services else None
        return all(each["state"] == "up" for name, each in self.processes().items() if chosen is None or name in chosen)

    def wait_until_up(self, *services: str) -> None:
        self.wait_until(lambda: self.is_up(*services), f"{', '.join(services) or 'every process'} to be up")

    def pid(self, name: str) -> int:
        pid = self.processes()[name]["pid"]
        if pid is None:
            raise ExperimentFailed(f"{name} is not running")
        return int(pid)

    @contextmanager
    def frozen(self, name: str) -> Iterator[None]:
        """SIGSTOP for a process, or for all of a service: they exist and keep their connections, but do nothing."""
        pids = [self.pid(each) for each in self.instances(name)]
        for pid in pids:
            _signal_group(pid, signal.SIGSTOP)
        try:
            yield
        finally:
            for pid in pids:
                _signal_group(pid, signal.SIGCONT)

    def resume(self, name: str) -> None:
        _signal_group(self.pid(name), signal.SIGCONT)

    def log_of(self, name: str) -> str:
        path = self.folder / "logs" / f"{name}.log"
        return path.read_text(errors="replace") if path.exists() else ""

    def count_in_logs(self, text: str, service: str) -> int:
        """How often a text occurs in the logs of a service's processes."""
        return sum(self.log_of(name).count(text) for name in self.instances(service))

    # ── servers ──────────────────────────────────────────────────────────────────────────────────

    @property
    def broker(self) -> str:
        return self.environment["KAFKA_BOOTSTRAP_SERVERS"]

    @property
    def leading_broker(self) -> str:
        """The process of the only broker, or of the one that leads most partitions of purchase requests."""
        return self.brokers.process(self.brokers.leading()[0] if self.brokers.count > 1 else 1)

    @property
    def database(self) -> SaleDatabase:
        return SaleDatabase(self.environment["SECKILL_DATABASE_URL"])

    def redis(self) -> Redis:
        """The Redis of the gate and of the admission."""
        return redis_client.connect(self.environment["SECKILL_GATE_REDIS_URL"], timeout_s=5)

    def run_seckill(self, *words: str) -> str:
        """What a `seckill` command prints."""
        done = self.seckill(*words)
        return done.stdout + done.stderr


def service_of(name: str) -> str:
    """inventory.1 belongs to inventory, inventory.settlement.1 to inventory.settlement."""
    service, _, number = name.rpartition(".")
    return service if number.isdigit() else name


def _signal_group(pid: int, number: signal.Signals) -> None:
    """Signal a process and everything that it has started."""
    try:
        os.killpg(pid, number)
    except ProcessLookupError:
        pass  # it has ended
