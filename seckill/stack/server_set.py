"""Shell: Postgres, Redis and the broker without the services, on free ports, for benchmarks and tests."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Self

import psycopg

from seckill.stack import health_checks, servers
from seckill.stack.broker_process import BrokerProcess
from seckill.stack.child_processes import free_ports, granian_command, running
from seckill.stack.stack_process import clean_environment, create_sale, run_module


@contextmanager
def running_postgres(
    folder: Path, port: int, *options: str, environment: Mapping[str, str] | None = None
) -> Iterator[subprocess.Popen[bytes]]:
    """A Postgres that any local user may connect to as `seckill`; `options` are further arguments of `postgres`."""
    servers.init_postgres(folder / "postgres")
    command, popen_options = servers.postgres_command(folder / "postgres", port)
    check = health_checks.postgres(postgres_url(port, "postgres"))
    with running(
        "Postgres", [*command, *options], folder / "postgres.log", check,
        environment=environment, stop_signal=signal.SIGINT, **popen_options,
    ) as process:  # fmt: skip
        yield process


def postgres_url(port: int, database: str) -> str:
    return f"postgresql://seckill@127.0.0.1:{port}/{database}"


@contextmanager
def running_redis(folder: Path, port: int) -> Iterator[subprocess.Popen[bytes]]:
    command = servers.redis_command(folder / "redis", port)
    with running("Redis", command, folder / "redis.log", health_checks.redis(f"redis://127.0.0.1:{port}/0")) as process:
        yield process


class ServerSet:
    """A context manager: inside the block all servers run, with tables and topics."""

    def __init__(self, folder: Path, postgres_environment: Mapping[str, str] | None = None) -> None:
        self.folder = folder
        self._postgres_port, self._redis_port, broker_port = free_ports(3)
        self.broker = BrokerProcess(folder / "broker", {"auto.create.topics.enable": "false"}, broker_port)
        self.database_url = postgres_url(self._postgres_port, "seckill")
        self.pids: dict[str, int] = {}
        self._postgres_environment = postgres_environment
        self._open = ExitStack()

    def environment(self) -> dict[str, str]:
        redis = f"redis://127.0.0.1:{self._redis_port}"
        return clean_environment() | {
            "DJANGO_SETTINGS_MODULE": "seckill.config.settings",
            "KAFKA_BOOTSTRAP_SERVERS": self.broker.address,
            "SECKILL_DATABASE_URL": self.database_url,
            "SECKILL_ADMISSION_REDIS_URL": f"{redis}/0",
            "SECKILL_GATE_REDIS_URL": f"{redis}/0",
            "SECKILL_CELERY_REDIS_URL": f"{redis}/1",
            "SECKILL_TRUSTED_PROXIES": "127.0.0.1",
        }

    def __enter__(self) -> Self:
        self.folder.mkdir(parents=True, exist_ok=True)
        try:
            self._start()
        except BaseException:
            self._open.close()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        self._open.close()

    def _start(self) -> None:
        environment = None if self._postgres_environment is None else os.environ | self._postgres_environment
        postgres = running_postgres(self.folder, self._postgres_port, environment=environment)
        self.pids["postgres"] = self._open.enter_context(postgres).pid
        self.pids["redis"] = self._open.enter_context(running_redis(self.folder, self._redis_port)).pid
        self.pids["broker"] = self._open.enter_context(self.broker).pid
        with psycopg.connect(postgres_url(self._postgres_port, "postgres"), autocommit=True) as connection:
            connection.execute("CREATE DATABASE seckill")
        run_module(self.environment(), "django", "migrate", "--verbosity", "0")
        run_module(self.environment(), "seckill.cli", "topics")

    def create_sale(self, units: int, **options: object) -> int:
        return create_sale(self.environment(), units, **options)

    @contextmanager
    def services(self, *commands: Sequence[str]) -> Iterator[list[subprocess.Popen[bytes]]]:
        """Run `seckill COMMAND` processes, such as `("consume", "inventory")`, for the length of the block."""
        with ExitStack() as opened:
            yield [
                opened.enter_context(
                    running(
                        " ".join(words), [sys.executable, "-m", "seckill.cli", *words],
                        self.folder / f"{' '.join(words)}.log", environment=self.environment(),
                    )
                )
                for words in commands
            ]  # fmt: skip

    @contextmanager
    def web_server(
        self, interface: str, application: str, *options: str, workers: int = 1, health_path: str = "livez"
    ) -> Iterator[tuple[int, int]]:
        """Serve an application with Granian during the block. Yields its port and the server's pid."""
        port = free_ports(1)[0]
        with running(
            application, granian_command(interface, port, application, *options, workers=workers),
            self.folder / f"{application}.log", health_checks.http(f"http://127.0.0.1:{port}/{health_path}"),
            environment=self.environment(),
        ) as process:  # fmt: skip
            yield port, process.pid
