"""The table of services, in the order in which they start; they stop in reverse order."""

from __future__ import annotations

import hashlib
import os
import shutil
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from seckill.config.environment import FILE_SUFFIX, BadEnvironment, read
from seckill.config.kafka_properties import KafkaConfig
from seckill.config.kafka_security import PREFIX, VARIABLES
from seckill.stack import health_checks, mqcore_brokers, passwords, servers
from seckill.stack.child_processes import granian_command
from seckill.stack.health_checks import Check
from seckill.stack.kafka_login import with_login
from seckill.stack.private_folder import private_folder

ROOT = Path(__file__).parents[2]
SOCKET_PATH_BYTES_MAX = 100


@dataclass(frozen=True, slots=True)
class Ports:
    postgres: int = 5433
    redis: int = 6380
    broker: int = 9092
    """Of the first broker; the others have the next ones."""
    controller: int = 9192
    """Of the first controller; only three brokers have any."""
    gateway: int = 8000
    provider: int = 8100
    sinks: int = 8101

    def __post_init__(self) -> None:
        for name, port in self.all().items():
            if not 0 < port < 65_536:
                raise ValueError(f"{name}={port}: a port is a number from 1 to 65535")

    def all(self) -> dict[str, int]:
        return {name: getattr(self, name) for name in self.__slots__}


@dataclass(frozen=True, slots=True)
class Layout:
    """The stack's folder and ports."""

    folder: Path
    ports: Ports = Ports()
    bootstrap_servers: str | None = None  # of an external Kafka to use instead of mqcore
    brokers: int = 1
    kafka_config: KafkaConfig | None = None  # how clients of the external Kafka log in; None: as the environment says

    @property
    def run(self) -> Path:
        return self.folder / "run"

    @property
    def socket(self) -> Path:
        """For commands to the running stack. The system limits the path of a Unix socket to about 100 bytes, so a
        longer one moves to a private folder."""
        path = self.run / "stack.sock"
        if len(os.fsencode(path)) < SOCKET_PATH_BYTES_MAX:
            return path
        name = hashlib.sha256(os.fsencode(self.folder)).hexdigest()[:16]
        return private_folder() / f"{name}.sock"

    def own_ports(self) -> dict[str, int]:
        """The ports that this stack listens on; those of external servers are left out."""
        external = {server: _is_external(server) for server in URLS}
        external["broker"] = bool(self.bootstrap_servers)
        external["controller"] = bool(self.bootstrap_servers) or self.brokers == 1
        own = {name: port for name, port in self.ports.all().items() if not external.get(name)}
        for name in {"broker", "controller"} & own.keys():
            own |= {f"{name}.{number}": own[name] + number - 1 for number in range(2, self.brokers + 1)}
        return own

    def addresses(self) -> dict[str, str]:
        """The address of every server and service as environment variables; variables that are already set win."""
        ports = self.ports
        login = f":{passwords.server_password(self.folder, 'postgres')}" if "postgres" in self.own_ports() else ""
        is_development = read(os.environ).development
        redis = f"redis://127.0.0.1:{ports.redis}"
        ours = {
            "KAFKA_BOOTSTRAP_SERVERS": self.bootstrap_servers or mqcore_brokers.addresses(ports.broker, self.brokers),
            "SECKILL_DATABASE_URL": f"postgresql://seckill{login}@127.0.0.1:{ports.postgres}/seckill",
            "SECKILL_ADMISSION_REDIS_URL": f"{redis}/0",
            "SECKILL_GATE_REDIS_URL": f"{redis}/0",
            "SECKILL_CELERY_REDIS_URL": f"{redis}/1",
            "SECKILL_PUBLIC_URL": f"http://127.0.0.1:{ports.gateway}",
            "SECKILL_CALLBACK_URL": f"http://127.0.0.1:{ports.gateway}",
            # In development the simulated crowd may name an IP address for each buyer.
            "SECKILL_TRUSTED_PROXIES": "127.0.0.1" if is_development else "",
            "SECKILL_PROVIDER_URL": f"http://127.0.0.1:{ports.provider}",
            "SECKILL_SINKS_URL": f"http://127.0.0.1:{ports.sinks}",
            "SECKILL_STACK_FOLDER": str(self.folder),
        }
        chosen = {name: _configured(name) or value for name, value in ours.items()}
        kafka = {"KAFKA_BOOTSTRAP_SERVERS": ours["KAFKA_BOOTSTRAP_SERVERS"]} | self._kafka_variables()
        return chosen | kafka

    def _kafka_variables(self) -> dict[str, str]:
        if self.kafka_config is not None:
            return self.kafka_config.variables_of(None)
        found = {name: _configured(name) for name in (f"{PREFIX}{each}" for each in VARIABLES)}
        return {name: value for name, value in found.items() if value}

    def environment(self, process: str | None = None) -> dict[str, str]:
        """For a process of the stack, or without its name for an operator's command. It does not depend on the folder
        in which `seckill up` was called."""
        path = os.pathsep.join(filter(None, [str(ROOT), os.environ.get("PYTHONPATH")]))
        ours = {"DJANGO_SETTINGS_MODULE": "seckill.config.settings", "PYTHONUNBUFFERED": "1", "PYTHONPATH": path}
        addresses = {
            name: value for name, value in self.addresses().items() if f"{name}{FILE_SUFFIX}" not in os.environ
        }
        return with_login({**os.environ, **addresses, **ours}, self.kafka_config, process)


URLS = {
    "postgres": ("SECKILL_DATABASE_URL",),
    "redis": ("SECKILL_ADMISSION_REDIS_URL", "SECKILL_GATE_REDIS_URL", "SECKILL_CELERY_REDIS_URL"),
}
"""The variables that name each server. We start our own unless all its variables name an external one."""


def _is_external(server: str) -> bool:
    return all(_configured(name) for name in URLS[server])


def _configured(name: str) -> str | None:
    """The value of a variable, or the content of the file that NAME_FILE names; None if neither is set."""
    path = os.environ.get(f"{name}{FILE_SUFFIX}")
    try:
        return os.environ.get(name) or (Path(path).read_text().strip() if path else None)
    except OSError as fault:
        raise BadEnvironment(f"{name}{FILE_SUFFIX}={path} cannot be read: {fault.strerror}") from fault


@dataclass(frozen=True, slots=True)
class Service:
    """`command` returns the command line and keyword arguments for Popen."""

    name: str
    command: Callable[[Layout, int], tuple[list[str], Mapping[str, Any]]]
    check: Callable[[Layout, str], Check]
    count: int = 1
    count_max: int = 1
    stop_signal: str = "SIGTERM"
    stop_seconds_max: float = 15.0
    is_server: bool = False  # starts before the database and the topics are created
    is_called: bool = False  # other services call it until they have ended, so it stops after them

    @property
    def stops_alone(self) -> bool:
        return self.is_server or self.is_called


def _python(*arguments: str) -> Callable[[Layout, int], tuple[list[str], Mapping[str, Any]]]:
    return lambda layout, number: ([sys.executable, *arguments], {})


def _consumer(group: str, count: int = 1, count_max: int = 12) -> Service:
    return Service(group, _python("-m", "seckill.cli", "consume", group), health_checks.ready_file, count, count_max)


def _stats(layout: Layout, number: int) -> tuple[list[str], Mapping[str, Any]]:
    return [sys.executable, "-m", "seckill.cli", "stats", "live", "--data", str(layout.folder)], {}


def _gateway(layout: Layout, number: int) -> tuple[list[str], Mapping[str, Any]]:
    environment = read(os.environ)
    command = granian_command(
        "rsgi", layout.ports.gateway, "gateway.app:application", "--backlog", "2048",
        "--http1-header-read-timeout", "10000",
        "--backpressure", str(environment.gateway_connections), workers=environment.gateway_workers,
    )  # fmt: skip
    if environment.gateway_workers == 1:
        return command, {}
    shared_metrics = layout.run / "gateway-metrics"  # a scrape reaches one worker and shows the numbers of all
    shutil.rmtree(shared_metrics, ignore_errors=True)
    shared_metrics.mkdir(parents=True)
    command[-1:-1] = ["--respawn-failed-workers", "--respawn-interval", "0.2"]  # a single one is restarted by the stack
    return ["env", f"PROMETHEUS_MULTIPROC_DIR={shared_metrics}", *command], {}


def services(layout: Layout) -> list[Service]:
    """In the order in which they start, without the servers that are external."""
    ports = layout.ports
    rows = [
        Service(
            "postgres",
            lambda layout, _: servers.postgres_command(layout.folder / "postgres", ports.postgres),
            lambda layout, _: health_checks.postgres(
                f"{layout.addresses()['SECKILL_DATABASE_URL'].rpartition('/')[0]}/postgres"
            ),
            stop_signal="SIGINT",
            is_server=True,
        ),
        Service(
            "redis",
            lambda layout, _: (servers.redis_command(layout.folder / "redis", ports.redis), {}),
            lambda layout, _: health_checks.redis(f"redis://127.0.0.1:{ports.redis}/0"),
            is_server=True,
        ),
        Service(
            "mqcore",
            lambda layout, number: (
                mqcore_brokers.command(
                    layout.folder / "mqcore",
                    ports.broker,
                    ports.controller,
                    layout.brokers,
                    number,
                    mqcore_brokers.network_ports(os.environ),
                ),
                {},
            ),
            lambda layout, name: health_checks.broker(ports.broker + mqcore_brokers.number_of(name) - 1),
            count=layout.brokers,
            count_max=layout.brokers,
            is_server=True,
        ),
        Service(
            "sandbox",
            lambda layout, _: (
                [
                    sys.executable,
                    "-m",
                    "loadtest.sandbox",
                    "--data",
                    str(layout.folder / "sandbox"),
                    "--provider-port",
                    str(ports.provider),
                    "--sinks-port",
                    str(ports.sinks),
                ],
                {},
            ),
            lambda layout, _: health_checks.ports_open(ports.provider, ports.sinks),
            is_called=True,
        ),
        Service("relay.inventory", _python("-m", "seckill.cli", "relay", "inventory"), health_checks.ready_file),
        Service("relay.orders", _python("-m", "seckill.cli", "relay", "orders"), health_checks.ready_file),
        _consumer("inventory", count=2),
        _consumer("inventory.settlement"),
        Service("inventory.sweep", _python("-m", "seckill.cli", "sweep", "inventory"), health_checks.ready_file),
        _consumer("orders", count=2),
        Service("orders.sweep", _python("-m", "seckill.cli", "sweep", "orders"), health_checks.ready_file),
        _consumer("gateway.outcomes"),
        _consumer("notify.sms"),
        _consumer("notify.email"),
        _consumer("notify.push"),
        Service(
            "celery",
            _python(
                "-m",
                "celery",
                "-A",
                "seckill.celery",
                "worker",
                "--loglevel",
                "WARNING",
                "--concurrency",
                "8",  # threads, which mostly wait for a reply
                "--pool",
                "threads",
            ),
            health_checks.no_check,
            count_max=4,
        ),
        Service(  # needs Java, so it is off until `seckill up --scale analytics=1` or `seckill scale analytics 1`
            "analytics",
            _stats,
            health_checks.ready_file,
            count=0,
            stop_seconds_max=40.0,
        ),
        Service("notify.sweep", _python("-m", "seckill.cli", "sweep", "notifications"), health_checks.ready_file),
        Service(
            "reports",
            lambda layout, _: (
                [sys.executable, "-m", "seckill.cli", "report", "serve", "--data", str(layout.folder)],
                {},
            ),
            health_checks.ready_file,
        ),
        Service(
            "gateway",
            _gateway,
            lambda layout, _: health_checks.http(f"http://127.0.0.1:{ports.gateway}/readyz"),
        ),
    ]
    own_ports = layout.own_ports()
    port_names = {"mqcore": "broker", "postgres": "postgres", "redis": "redis"}
    return [row for row in rows if port_names.get(row.name, "gateway") in own_ports]
