"""Shell: the stack that the fault cases break: what they do to its processes and servers."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from redis import Redis

from seckill.lab.brokers import Brokers
from seckill.lab.evidence_folder import EvidenceFolder
from seckill.lab.faults.case import PAYMENT_TTL_S
from seckill.lab.lab_stack import ExperimentFailed
from seckill.lab.sale_database import SaleDatabase
from seckill.stack.child_processes import free_ports_from
from seckill.stack.control import StackFault
from seckill.stack.services import Ports
from seckill.stack.stack_process import StackProcess

WITNESSES = ("sandbox",)
"""Their logs are evidence, so random faults spare them."""


class FaultStack(StackProcess):
    """One stack for all cases that share it. Its ports lie below those that outgoing connections take, so that a server
    gets its own port back after an outage. Each name has as many consecutive ports as there are brokers."""

    def __init__(self, folder: Path, first_port: int, payment_ttl_s: int = PAYMENT_TTL_S, *, brokers: int = 1) -> None:
        names = [*Ports().all(), "second gateway"]
        self.ports = dict(zip(names, free_ports_from(first_port, brokers), strict=False))
        self.second_port = self.ports.pop("second gateway")
        self.payment_ttl_s = payment_ttl_s
        settings = {"SECKILL_PAYMENT_TTL_S": str(payment_ttl_s), "SECKILL_TRUSTED_PROXIES": "127.0.0.1"}
        super().__init__(folder, Ports(**self.ports), settings, brokers=brokers)
        self.brokers = Brokers(self.layout)
        self.evidence_folder = EvidenceFolder(self.evidence)
        self.environment: dict[str, str] = {}
        self.endless_sale = 0

    def start(self) -> None:
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
        return super().stop()

    # ── processes ────────────────────────────────────────────────────────────────────────────────

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
        client: Redis = Redis.from_url(
            self.environment["SECKILL_GATE_REDIS_URL"], socket_timeout=5, decode_responses=True
        )
        return client

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
