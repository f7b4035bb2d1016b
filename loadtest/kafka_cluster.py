"""Shell: three nodes of Apache Kafka, each a broker and a controller: for tests, benchmarks and experiments.

    python -m loadtest.kafka_cluster --data var/kafka --secure
    seckill up --kafka-config var/kafka/client.properties           # in another terminal
    seckill kill kafka.2 --data var/kafka                           # also status, stop, start, down
    python -m loadtest.kafka_cluster --secure -- seckill demo --kafka-nodes var/kafka

With `--secure` it is a cluster as people run it: SASL_SSL with SCRAM-SHA-512 and PLAIN, an authority of its own, and
rights for each service. A node that dies is started again. The nodes reach one another through a relay, so fault cases
can cut the network between them.
"""

from __future__ import annotations

import argparse
import os
import signal
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Self

from loadtest.kafka_jars import classpath, java
from loadtest.kafka_security import HOST, KafkaSecurity, grant_access
from seckill.lab.kafka_brokers import SERVICE
from seckill.lab.kafka_target import ADMIN_FILE, CLIENT_FILE, NETWORK_COMMAND
from seckill.stack import health_checks
from seckill.stack.broker_cluster import CLUSTER_ID, BrokerCluster, ClusterNode
from seckill.stack.broker_network import NODES, PORTS_COUNT, NetworkFault, NetworkPorts
from seckill.stack.child_processes import end_process, free_port_run
from seckill.stack.control import Command, Reply, StackFault
from seckill.stack.services import Layout, Service
from seckill.stack.supervisor import Supervisor

FORMAT_SECONDS_MAX = 120
STOP_SECONDS_MAX = 40.0


class ApacheKafkaNode(ClusterNode):
    start_seconds_max = 120.0  # three Java machines at once on two busy cores
    jvm: tuple[str, ...] = ()
    """Options of the Java machine; none: those that suit tests, with a small heap."""

    def __init__(
        self, number: int, folder: Path, settings: Mapping[str, str], port: int, controller_port: int,
        security: KafkaSecurity | None = None,
    ) -> None:  # fmt: skip
        self.security = security
        self.hosts = ""  # what the node resolves names with, if it has names for the others
        super().__init__(number, folder, settings, port, controller_port)
        if security is not None:
            self.settings |= security.server_settings(port, controller_port)

    @property
    def address(self) -> str:
        return f"{HOST}:{self.port}" if self.security else super().address

    @property
    def _properties(self) -> Path:
        return self.folder / "server.properties"

    @property
    def hosts_path(self) -> Path:
        return self.folder / "hosts"

    def command(self) -> list[str]:
        if self.jvm:
            return ["java", *self.jvm, "-cp", classpath(), "kafka.Kafka", str(self._properties)]
        hosts = [f"-Djdk.net.hosts.file={self.hosts_path}"] if self.hosts else []
        return java(*hosts, "kafka.Kafka", self._properties, heap="512m")

    def is_ready(self) -> bool:
        return health_checks.is_broker(self.port, self.security.tls() if self.security else None)

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
        self._properties.touch(mode=0o600)  # it has passwords in it
        self._properties.write_text("".join(f"{name}={value}\n" for name, value in settings.items()))
        if self.hosts:
            self.hosts_path.write_text(self.hosts)
        users = self.security.format_arguments() if self.security else []
        subprocess.run(
            java("kafka.tools.StorageTool", "format", "-t", CLUSTER_ID, "-c", self._properties, *users),
            check=True,
            capture_output=True,
            timeout=FORMAT_SECONDS_MAX,
        )


class ApacheKafkaCluster(BrokerCluster):
    """With `secure`, `start` also writes the clients' files into the folder and grants the rights of the sale."""

    def __init__(
        self, folder: Path, settings: Mapping[str, str] | None = None, first_port: int | None = None, *,
        secure: bool = False, has_network: bool = False,
    ) -> None:  # fmt: skip
        self.security = KafkaSecurity(folder.absolute() / "security") if secure else None
        if secure:
            self.host = HOST
        super().__init__(folder, settings, first_port, has_network=has_network)
        if has_network:
            for number, node in self.nodes.items():
                assert isinstance(node, ApacheKafkaNode)
                node.hosts = self.network.ports.hosts_file(number)

    def network_ports(self, first: int) -> NetworkPorts:
        return NetworkPorts(first, "SASL_SSL" if self.security else "PLAINTEXT", self.host, has_names=True)

    def make_node(
        self, number: int, folder: Path, settings: Mapping[str, str], port: int, controller_port: int
    ) -> ClusterNode:
        return ApacheKafkaNode(number, folder, settings, port, controller_port, self.security)

    def start(self) -> Self:
        super().start()
        self.admit_clients()
        return self

    def admit_clients(self) -> None:
        """Write the files with which clients log in, and give the principals their rights. Repeating it is harmless."""
        if self.security is None:
            (self.folder / CLIENT_FILE).write_text(f"bootstrap.servers={self.address}\n")
        else:
            self.security.write_client_files(self.folder, self.address)
            grant_access(self.folder / ADMIN_FILE)


# ── the command ──────────────────────────────────────────────────────────────────────────────────


class NodesLayout(Layout):
    """The folder of the cluster; its processes are no clients and need no variables of the sale."""

    def environment(self, process: str | None = None) -> dict[str, str]:
        return dict(os.environ)


class KafkaSupervisor(Supervisor):
    """Runs the nodes as a stack runs its processes, and takes the same commands."""

    start_seconds_max = ApacheKafkaNode.start_seconds_max

    def __init__(self, cluster: ApacheKafkaCluster) -> None:
        self.cluster = cluster
        nodes = Service(
            SERVICE,
            lambda layout, number: (cluster.nodes[number].command(), {}),
            lambda layout, name: self._check(int(name.rpartition(".")[2])),
            count=len(NODES),
            count_max=len(NODES),
            stop_seconds_max=STOP_SECONDS_MAX,
            is_server=True,
        )
        announce = lambda text: print(text, flush=True)  # noqa: E731
        super().__init__(NodesLayout(cluster.folder), {}, announce, rows=[nodes])

    def _check(self, number: int) -> health_checks.Check:
        node = self.cluster.nodes[number]
        return lambda: None if node.is_ready() else f"port {node.port}: no broker answers yet"

    def start(self) -> None:
        self._claim_folder()
        self.cluster.network.start()
        for number, node in self.cluster.nodes.items():
            if not node.data.exists():
                self._announce(f"formatting the folder of node {number}")
                node.format(founder=number == NODES[0])
            conflict = health_checks.port_conflict(node.port)
            if conflict is not None:
                raise StackFault(f"port {node.port} (kafka.{number}) is taken ({conflict}); choose others with --port")
        self._bring_up(self._services)
        self.cluster.admit_clients()

    def stop(self) -> None:
        super().stop()
        self.cluster.network.close()

    def execute(self, command: Command) -> Reply:
        if command["command"] != NETWORK_COMMAND:
            return super().execute(command)
        try:
            return dict(self.cluster.network.send(command["faults"]))
        except NetworkFault as fault:
            raise StackFault(str(fault)) from fault


def first_port(folder: Path, wanted: int | None) -> int:
    """Of fifteen: the brokers' ports, the controllers', and those of the relay. The folder remembers it, because each
    node has all of them in its settings."""
    path = folder / "first-port"
    if path.exists():
        known = int(path.read_text())
        if wanted not in (None, known):
            raise StackFault(f"the cluster in {folder} has its ports from {known} on; they cannot be changed")
        return known
    chosen = wanted or free_port_run(2 * len(NODES) + PORTS_COUNT)
    folder.mkdir(parents=True, exist_ok=True)
    path.write_text(str(chosen))
    return chosen


def main(arguments: Sequence[str] | None = None) -> int:
    title, _, text = (__doc__ or "").partition("\n")
    parser = argparse.ArgumentParser(
        prog="python -m loadtest.kafka_cluster", description=title, epilog=text,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )  # fmt: skip
    parser.add_argument("--data", type=Path, default=Path("var/kafka"), help="folder of the cluster (var/kafka)")
    parser.add_argument("--secure", action="store_true", help="TLS, passwords and rights; of a new folder only")
    parser.add_argument("--port", type=int, metavar="N", help="the first of fifteen ports (default: free ones)")
    parser.add_argument("command", nargs="*", help="after --: a command to run on the cluster, which then stops")
    options = parser.parse_args(arguments)
    folder: Path = options.data.absolute()
    os.umask(0o077)
    try:
        has_data, is_secure = (folder / "1" / "data").exists(), (folder / "security").exists()
        if has_data and options.secure and not is_secure:
            raise StackFault(f"{folder} has a cluster without --secure; choose another --data")
        if has_data and not (folder / "1" / "hosts").exists():
            raise StackFault(f"{folder} has a cluster without a relay, of an older version; choose another --data")
        port = first_port(folder, options.port)
        settings = {"auto.create.topics.enable": "false"}
        cluster = ApacheKafkaCluster(folder, settings, port, secure=options.secure or is_secure, has_network=True)
        supervisor = KafkaSupervisor(cluster)
    except (StackFault, OSError) as fault:
        return _fail(str(fault), 2)
    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
        signal.signal(number, lambda *_: supervisor.request_stop())
    try:
        supervisor.start()
        print(f"up: {cluster.address} · clients log in with {folder / CLIENT_FILE} · Ctrl-C stops it", flush=True)
        return _watch(supervisor, options.command)
    except (StackFault, NetworkFault, OSError, subprocess.SubprocessError) as fault:
        return _fail(_explain(fault), 1)
    finally:
        supervisor.stop()


def _watch(supervisor: KafkaSupervisor, command: Sequence[str]) -> int:
    """Until Ctrl-C, or until the command has ended; its exit code."""
    child = subprocess.Popen(command) if command else None

    def stop_with_child() -> None:
        if child is not None and child.poll() is not None:
            supervisor.request_stop()

    supervisor.watch(stop_with_child)
    if child is None:
        return 0
    end_process(child, signal.SIGINT, STOP_SECONDS_MAX)
    return child.returncode


def _explain(fault: Exception) -> str:
    output = getattr(fault, "stderr", b"") or b""
    return f"{fault} {output.decode(errors='replace').strip()[-500:]}".strip()


def _fail(text: str, code: int) -> int:
    print(f"kafka_cluster: {text}", file=sys.stderr)
    return code


if __name__ == "__main__":
    sys.exit(main())
