"""Shell: the servers of the labs: Postgres, Redis and the broker, started when a lab needs them, shared by the next.

A variant gets a copy of the migrated database, so a broken variant may drop constraints without harm to the next one.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable
from contextlib import ExitStack
from pathlib import Path
from typing import Self

import psycopg
from psycopg import sql
from redis import Redis

from seckill.lab.labs.lab import Server
from seckill.stack.broker_process import BrokerProcess
from seckill.stack.child_processes import free_ports
from seckill.stack.server_set import postgres_url, running_postgres, running_redis
from seckill.stack.stack_process import clean_environment, run_module

TEMPLATE = "seckill"


class LabServers:
    """A context manager: at its end all servers that were started stop."""

    def __init__(self, folder: Path, postgres_options: tuple[str, ...], tell: Callable[[str], None]) -> None:
        self._folder = folder
        self._options = postgres_options
        self._tell = tell
        self._open = ExitStack()
        self._running: set[Server] = set()
        self._postgres_port, self._redis_port, broker_port = free_ports(3)
        self._broker = BrokerProcess(folder / "broker", {"auto.create.topics.enable": "false"}, broker_port)
        self._copies = 0

    def __enter__(self) -> Self:
        self._folder.mkdir(parents=True, exist_ok=True)
        return self

    def __exit__(self, *_: object) -> None:
        self._open.close()

    def start(self, wanted: Iterable[Server]) -> None:
        """Start those of the servers that do not run yet."""
        for server in (each for each in Server if each in set(wanted) - self._running):
            self._start_one(server)
            self._running.add(server)

    def _start_one(self, server: Server) -> None:
        if server is Server.POSTGRES:
            self._tell("starting Postgres and creating the tables …")
            self._open.enter_context(running_postgres(self._folder, self._postgres_port, *self._options))
            self._create_database(TEMPLATE)
            run_module(self._environment(TEMPLATE), "django", "migrate", "--verbosity", "0")
        elif server is Server.REDIS:
            self._open.enter_context(running_redis(self._folder, self._redis_port))
        elif server is Server.BROKER:
            self._tell("starting the broker …")
            self._open.enter_context(self._broker)
        else:
            run_module(self._environment(TEMPLATE), "seckill.cli", "topics")

    def fresh_environment(self) -> dict[str, str]:
        """Variables for a variant: a new copy of the database and an empty Redis."""
        if Server.REDIS in self._running:
            with Redis.from_url(self._redis_url) as redis:
                redis.flushall()
        if Server.POSTGRES not in self._running:
            return self._environment(TEMPLATE)
        self._copies += 1
        name = f"lab_{self._copies}"
        self._create_database(name, template=TEMPLATE)
        return self._environment(name)

    @property
    def _redis_url(self) -> str:
        return f"redis://127.0.0.1:{self._redis_port}/0"

    def _create_database(self, name: str, template: str = "template1") -> None:
        statement = sql.SQL("CREATE DATABASE {} TEMPLATE {}").format(sql.Identifier(name), sql.Identifier(template))
        with psycopg.connect(postgres_url(self._postgres_port, "postgres"), autocommit=True) as connection:
            connection.execute(statement)

    def _environment(self, database: str) -> dict[str, str]:
        return clean_environment() | {
            "DJANGO_SETTINGS_MODULE": "seckill.config.settings",
            "KAFKA_BOOTSTRAP_SERVERS": self._broker.address,
            "SECKILL_DATABASE_URL": postgres_url(self._postgres_port, database),
            "SECKILL_ADMISSION_REDIS_URL": self._redis_url,
            "SECKILL_GATE_REDIS_URL": self._redis_url,
            "SECKILL_CELERY_REDIS_URL": self._redis_url.removesuffix("0") + "1",
            "SECKILL_TRUSTED_PROXIES": "127.0.0.1",
            "PATH": os.environ.get("PATH", ""),
        }
