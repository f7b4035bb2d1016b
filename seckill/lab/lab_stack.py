"""Shell: a stack for an experiment, and the programs that run beside it: the crowd, other designs, the report."""

from __future__ import annotations

import re
import signal
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

from seckill.lab.brokers import Brokers
from seckill.lab.evidence_folder import EvidenceFolder
from seckill.lab.kafka_brokers import KafkaBrokers
from seckill.lab.kafka_target import KafkaTarget
from seckill.lab.sale_database import SaleDatabase
from seckill.stack import health_checks
from seckill.stack.child_processes import end_process, free_port_run, free_ports
from seckill.stack.services import Ports
from seckill.stack.stack_process import StackProcess, clean_environment

CHILD_STOP_SECONDS_MAX = 60.0


class ExperimentFailed(Exception):
    """The experiment itself could not go on; this says nothing about the sale."""


class LabStack(StackProcess):
    """Its buyers may name an IP address each, although all come from this machine."""

    def __init__(
        self,
        folder: Path,
        scale: Mapping[str, int],
        payment_ttl_s: int,
        *fault_points: str,
        brokers: int = 1,
        kafka: KafkaTarget | None = None,
    ) -> None:
        settings = {
            "SECKILL_TRUSTED_PROXIES": "127.0.0.1",
            "SECKILL_PAYMENT_TTL_S": str(payment_ttl_s),
            "SECKILL_FAULT": ",".join(fault_points),
        }
        address, config = (None, None) if kafka is None else (kafka.address, kafka.config_file)
        super().__init__(folder, _ports(brokers), settings, scale, brokers=brokers, kafka=address, kafka_config=config)
        self._kafka = kafka
        self.evidence_folder = EvidenceFolder(self.evidence)
        self._children: list[subprocess.Popen[bytes]] = []

    @property
    def database(self) -> SaleDatabase:
        return SaleDatabase(self.addresses()["SECKILL_DATABASE_URL"])

    def start(self) -> None:
        if self._kafka is not None:
            self._kafka.empty_topics()
        super().start()

    def stop(self) -> int:
        """The programs beside the stack first, the newest one before the others."""
        for child in reversed(self._children):
            end_process(child, signal.SIGINT, CHILD_STOP_SECONDS_MAX)
        return super().stop()

    def kill_service(self, name: str) -> int:
        """Kill a service's processes with -9 and return their number."""
        instance = re.compile(rf"{re.escape(name)}(\.\d+)?")
        running = [each for each in self.processes().values() if each["pid"] and instance.fullmatch(each["name"])]
        self.send("kill", name=name)
        return len(running)

    @property
    def can_kill_broker(self) -> bool:
        """Whether the sale goes on without one broker, and its process is within reach."""
        return self.layout.brokers > 1 if self._kafka is None else self._kafka.nodes is not None

    def kill_leading_broker(self) -> tuple[str, int]:
        """kill -9 of the broker that leads most partitions of purchase requests: its name, and how many it led."""
        brokers = Brokers(self.layout) if self._kafka is None else KafkaBrokers(self.layout, self._kafka)
        number, count = brokers.leading()
        name = brokers.process(number)
        if self._kafka is None:
            self.kill_service(name)
        else:
            self._kafka.send({"command": "kill", "name": name})
        return name, count

    def restarts(self, name: str) -> int:
        return sum(each["restarts"] for each in self.processes().values() if each["name"] == name)

    def spawn(
        self, name: str, module: str, *words: str, environment: Mapping[str, str] | None = None
    ) -> subprocess.Popen[bytes]:
        """Start `python -m MODULE WORDS` beside the stack, with its output in `NAME.log`."""
        command = [sys.executable, "-m", module, *words]
        return self.spawn_command(name, command, environment or {})

    def spawn_command(
        self, name: str, command: Sequence[str], environment: Mapping[str, str]
    ) -> subprocess.Popen[bytes]:
        with (self.folder / f"{name}.log").open("ab") as output:
            child = subprocess.Popen(
                command, stdin=subprocess.DEVNULL, stdout=output, stderr=output, start_new_session=True,
                env={**clean_environment(), **environment},
            )  # fmt: skip
        self._children.append(child)
        return child

    def log_text(self, name: str) -> str:
        return (self.folder / f"{name}.log").read_text(errors="replace")

    def run(self, module: str, *words: str, exit_codes: Sequence[int] = (0,)) -> subprocess.CompletedProcess[str]:
        """Run `python -m MODULE WORDS` to its end; `ExperimentFailed` for any other exit code."""
        command = [sys.executable, "-m", module, *words]
        done = subprocess.run(command, capture_output=True, text=True, env=clean_environment())
        if done.returncode not in exit_codes:
            raise ExperimentFailed(f"{module} {' '.join(words)} exited with {done.returncode}: {done.stderr[-2000:]}")
        return done


def _ports(brokers: int) -> Ports:
    """Free ports, but the gateway's usual one if it is free, because someone may want to open the shop."""
    usual, names = Ports().gateway, list(Ports().all())
    ports = dict(zip(names, free_ports(len(names)), strict=True))
    if brokers > 1:
        ports |= {"broker": free_port_run(brokers), "controller": free_port_run(brokers)}
    return Ports(**ports | ({"gateway": usual} if health_checks.port_conflict(usual) is None else {}))
