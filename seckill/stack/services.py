"""What the stack consists of: one row a service, in the order of a start; the stop goes the other way."""

from __future__ import annotations

import hashlib
import os
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from seckill.environment import IN_A_FILE, BadEnvironment, read
from seckill.stack import passwords, ready, servers
from seckill.stack.private import private_folder
from seckill.stack.ready import Check

ROOT = Path(__file__).parents[2]
LONGEST_SOCKET = 100
HTTP_1_ONLY = ("--http", "1", "--no-ws")
"""Granian would also speak HTTP/2 and WebSockets, whose limits on headers and streams are others."""


@dataclass(frozen=True, slots=True)
class Ports:
    postgres: int = 5433
    redis: int = 6380
    broker: int = 9092
    gateway: int = 8000
    provider: int = 8100
    sinks: int = 8101
    live: int = 8001

    def __post_init__(self) -> None:
        for name, port in self.all().items():
            if not 0 < port < 65_536:
                raise ValueError(f"{name}={port}: a port is a number from 1 to 65535")

    def all(self) -> dict[str, int]:
        return {name: getattr(self, name) for name in self.__slots__}


@dataclass(frozen=True, slots=True)
class Layout:
    """Where this stack lives: one folder, and its ports."""

    folder: Path
    ports: Ports = Ports()
    bootstrap_servers: str | None = None  # somebody else's Kafka instead of mqcore

    @property
    def run(self) -> Path:
        return self.folder / "run"

    @property
    def socket(self) -> Path:
        """For words to the running stack. The name of a Unix socket may not be longer than some 100 bytes."""
        path = self.run / "stack.sock"
        if len(os.fsencode(path)) < LONGEST_SOCKET:
            return path
        named = hashlib.sha256(os.fsencode(self.folder)).hexdigest()[:16]
        return private_folder() / f"{named}.sock"

    def own_ports(self) -> dict[str, int]:
        """Those that we shall listen on ourselves."""
        given = {"broker": self.bootstrap_servers} | {server: _is_given(server) for server in URLS}
        return {name: port for name, port in self.ports.all().items() if not given.get(name)}

    def addresses(self) -> dict[str, str]:
        """Where everything is, as variables of the environment; one that is set already is somebody's choice."""
        ports = self.ports
        login = f":{passwords.password(self.folder, 'postgres')}" if "postgres" in self.own_ports() else ""
        is_development = read(os.environ).development
        redis = f"redis://127.0.0.1:{ports.redis}"
        ours = {
            "KAFKA_BOOTSTRAP_SERVERS": self.bootstrap_servers or f"127.0.0.1:{ports.broker}",
            "SECKILL_DATABASE_URL": f"postgresql://seckill{login}@127.0.0.1:{ports.postgres}/seckill",
            "SECKILL_ADMISSION_REDIS_URL": f"{redis}/0",
            "SECKILL_GATE_REDIS_URL": f"{redis}/0",
            "SECKILL_CELERY_REDIS_URL": f"{redis}/1",
            "SECKILL_PUBLIC_URL": f"http://127.0.0.1:{ports.gateway}",
            "SECKILL_CALLBACK_URL": f"http://127.0.0.1:{ports.gateway}",
            "SECKILL_LIVE_URL": f"http://127.0.0.1:{ports.live}",
            "SECKILL_TRUSTED_PROXIES": "127.0.0.1" if is_development else "",  # each simulated buyer has an address
            "SECKILL_PROVIDER_URL": f"http://127.0.0.1:{ports.provider}",
            "SECKILL_SINKS_URL": f"http://127.0.0.1:{ports.sinks}",
            "SECKILL_STACK_FOLDER": str(self.folder),
        }
        chosen = {name: _chosen(name) or value for name, value in ours.items()}
        return chosen | {"KAFKA_BOOTSTRAP_SERVERS": ours["KAFKA_BOOTSTRAP_SERVERS"]}

    def environment(self) -> dict[str, str]:
        """For the processes of the stack, wherever `seckill up` was called."""
        path = os.pathsep.join(filter(None, [str(ROOT), os.environ.get("PYTHONPATH")]))
        ours = {"DJANGO_SETTINGS_MODULE": "seckill.settings", "PYTHONUNBUFFERED": "1", "PYTHONPATH": path}
        addresses = {name: value for name, value in self.addresses().items() if f"{name}{IN_A_FILE}" not in os.environ}
        return {**os.environ, **addresses, **ours}


URLS = {
    "postgres": ("SECKILL_DATABASE_URL",),
    "redis": ("SECKILL_ADMISSION_REDIS_URL", "SECKILL_GATE_REDIS_URL", "SECKILL_CELERY_REDIS_URL"),
}
"""What each server of ours is for. It is started unless all of that is somebody else's."""


def _is_given(server: str) -> bool:
    return all(_chosen(name) for name in URLS[server])


def _chosen(name: str) -> str | None:
    """What the environment says of an address, by itself or in a file; None: nothing."""
    path = os.environ.get(f"{name}{IN_A_FILE}")
    try:
        return os.environ.get(name) or (Path(path).read_text().strip() if path else None)
    except OSError as fault:
        raise BadEnvironment(f"{name}{IN_A_FILE}={path} cannot be read: {fault.strerror}") from fault


@dataclass(frozen=True, slots=True)
class Service:
    """`command` gives what to run and how (keyword arguments of Popen)."""

    name: str
    command: Callable[[Layout, int], tuple[list[str], Mapping[str, Any]]]
    check: Callable[[Layout, str], Check]
    count: int = 1
    most: int = 1
    stop_signal: str = "SIGTERM"
    stop_s: float = 15.0
    is_server: bool = False  # up before the database and the topics are made
    is_called: bool = False  # by the others, to their very end: it ends after them

    @property
    def ends_alone(self) -> bool:
        return self.is_server or self.is_called


def _python(*arguments: str) -> Callable[[Layout, int], tuple[list[str], Mapping[str, Any]]]:
    return lambda layout, number: ([sys.executable, *arguments], {})


def _granian(
    interface: str, port: int, application: str, *more: str
) -> Callable[[Layout, int], tuple[list[str], Mapping[str, Any]]]:
    """One worker process that serves HTTP."""
    address = ("--host", "127.0.0.1", "--port", str(port), "--workers", "1", "--log-level", "warning")
    return _python("-m", "granian", "--interface", interface, *HTTP_1_ONLY, *address, *more, application)


def _consumer(group: str, count: int = 1, most: int = 12) -> Service:
    return Service(group, _python("-m", "seckill.cli", "consume", group), ready.file, count, most)


def _stats(layout: Layout, number: int) -> tuple[list[str], Mapping[str, Any]]:
    return [sys.executable, "-m", "seckill.cli", "stats", "live", "--data", str(layout.folder)], {}


def services(layout: Layout) -> list[Service]:
    """In the order of a start. A broker of somebody else's is not ours to start."""
    ports = layout.ports
    rows = [
        Service(
            "postgres",
            lambda layout, _: servers.postgres_command(layout.folder / "postgres", ports.postgres),
            lambda layout, _: ready.postgres(
                f"{layout.addresses()['SECKILL_DATABASE_URL'].rpartition('/')[0]}/postgres"
            ),
            stop_signal="SIGINT",
            is_server=True,
        ),
        Service(
            "redis",
            lambda layout, _: (servers.redis_command(layout.folder / "redis", ports.redis), {}),
            lambda layout, _: ready.redis(f"redis://127.0.0.1:{ports.redis}/0"),
            is_server=True,
        ),
        Service(
            "mqcore",
            lambda layout, _: (
                [
                    sys.executable,
                    "-m",
                    "mqcore",
                    "serve",
                    "--listen",
                    f"127.0.0.1:{ports.broker}",
                    "--data",
                    str(layout.folder / "mqcore"),
                    "--set",
                    "auto.create.topics.enable=false",
                    "--set",
                    "max.connections.per.ip=1000",  # all processes of the stack, and Spark, are one address
                ],
                {},
            ),
            lambda layout, _: ready.broker(ports.broker),
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
            lambda layout, _: ready.port(ports.provider, ports.sinks),
            is_called=True,
        ),
        Service("relay.inventory", _python("-m", "seckill.cli", "relay", "inventory"), ready.file),
        Service("relay.orders", _python("-m", "seckill.cli", "relay", "orders"), ready.file),
        _consumer("inventory", count=2),
        _consumer("inventory.settlement"),
        Service("inventory.sweep", _python("-m", "seckill.cli", "sweep", "inventory"), ready.file),
        _consumer("orders", count=2),
        Service("orders.sweep", _python("-m", "seckill.cli", "sweep", "orders"), ready.file),
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
                "8",  # threads that mostly wait for somebody's answer
                "--pool",
                "threads",
            ),
            ready.alive,
            most=4,
        ),
        Service(  # takes a Java of its own: off until `seckill up --scale analytics=1` or `seckill scale analytics 1`
            "analytics",
            _stats,
            ready.file,
            count=0,
            stop_s=40.0,
        ),
        Service("notify.sweep", _python("-m", "seckill.cli", "sweep", "notifications"), ready.file),
        Service(
            "gateway",
            _granian("rsgi", ports.gateway, "seckill.rsgi:application", "--backpressure", "4096"),
            lambda layout, _: ready.http(f"http://127.0.0.1:{ports.gateway}/readyz"),
        ),
        Service(
            "live",
            _granian("asgi", ports.live, "gateway.live:application", "--backlog", "2048", "--backpressure", "6000"),
            lambda layout, _: ready.http(f"http://127.0.0.1:{ports.live}/readyz"),
        ),
    ]
    ours = layout.own_ports()
    port_of = {"mqcore": "broker", "postgres": "postgres", "redis": "redis"}
    return [row for row in rows if port_of.get(row.name, "gateway") in ours]
