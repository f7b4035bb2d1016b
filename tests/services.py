"""Postgres, Redis and mqcore for tests: real processes, one of each a session, on free ports, in folders of their own.

A test that asks for `db` or `transactional_db` (or lies in tests/concurrency) has a database with all tables on such a
Postgres, and `settings.ENVIRONMENT` points at the servers. Who asks for none of it starts nothing.
"""

from __future__ import annotations

import os
import subprocess
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, TypeVar

import pytest
from redis import Redis

from seckill.stack import ready, servers
from seckill.stack.broker import BrokerProcess, free_port
from tests.conformance.peer import make_broker

PATIENCE_S = 60.0

Result = TypeVar("Result")


@dataclass(frozen=True, slots=True)
class Services:
    postgres_port: int
    redis_port: int

    @property
    def redis_url(self) -> str:
        return f"redis://127.0.0.1:{self.redis_port}/0"

    def environment(self, **more: str) -> dict[str, str]:
        """For a process of ours that is to work on the test's database; after the database is made."""
        from django.conf import settings

        base = {name: value for name, value in os.environ.items() if not name.startswith("SECKILL_")}
        database = settings.DATABASES["default"]
        return base | {
            "DJANGO_SETTINGS_MODULE": "seckill.settings",
            "KAFKA_BOOTSTRAP_SERVERS": settings.ENVIRONMENT.kafka_bootstrap_servers,
            "SECKILL_DATABASE_URL": f"postgresql://seckill@127.0.0.1:{self.postgres_port}/{database['NAME']}",
            "SECKILL_ADMISSION_REDIS_URL": self.redis_url,
            "SECKILL_GATE_REDIS_URL": self.redis_url,
            "SECKILL_CELERY_REDIS_URL": self.redis_url.removesuffix("0") + "1",
            **more,
        }


@pytest.fixture(scope="session")
def services(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Services]:
    folder = tmp_path_factory.mktemp("servers")
    made = Services(free_port(), free_port())
    servers.init_postgres(folder / "postgres")
    command, how = servers.postgres_command(folder / "postgres", made.postgres_port)
    command += ["-c", "fsync=off", "-c", "shared_buffers=64MB"]  # a process may be killed here, the machine may not
    url = f"postgresql://seckill@127.0.0.1:{made.postgres_port}/postgres"
    redis = servers.redis_command(folder / "redis", made.redis_port)
    with (
        running(command, folder / "postgres.log", ready.postgres(url), **how),
        running(redis, folder / "redis.log", ready.redis(made.redis_url)),
    ):
        yield made


@contextmanager
def running(command: Sequence[str], log: Path, missing: ready.Check, **how: Any) -> Iterator[subprocess.Popen[bytes]]:
    """A server until the end of the block, ready when the block begins."""
    with log.open("ab") as output:
        process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=output, stderr=output, **how)
    try:
        until(lambda: process.poll() is not None or missing() is None, f"{command[0]} to be ready")
        assert process.poll() is None, log.read_text()
        yield process
    finally:
        process.terminate()
        try:
            process.wait(5)
        except subprocess.TimeoutExpired:
            process.kill()  # Postgres waits for those who are still connected
            process.wait()


# ── what pytest-django asks for ──────────────────────────────────────────────────────────────────


@pytest.fixture(scope="session")
def django_db_keepdb() -> bool:
    """The whole server is thrown away after the session: nobody needs to drop the database."""
    return True


@pytest.fixture(scope="session")
def django_db_modify_db_settings(services: Services) -> None:
    """Nobody here asks for Django's permissions: to write them anew after each test would cost more than the test."""
    from django.conf import settings
    from django.contrib.contenttypes.management import create_contenttypes
    from django.db.models.signals import post_migrate

    post_migrate.disconnect(dispatch_uid="django.contrib.auth.management.create_permissions")
    post_migrate.disconnect(create_contenttypes)

    address: dict[str, Any] = {
        "HOST": "127.0.0.1",
        "PORT": services.postgres_port,
        "USER": "seckill",
        "PASSWORD": "",
        "NAME": "seckill",
    }
    settings.DATABASES["default"].update(address)
    settings.ENVIRONMENT = replace(
        settings.ENVIRONMENT,
        admission_redis_url=services.redis_url,
        gate_redis_url=services.redis_url,
        celery_redis_url=services.redis_url.removesuffix("0") + "1",
    )


@pytest.fixture
def redis(services: Services, django_db_modify_db_settings: None) -> Iterator[Redis]:
    """An empty Redis; `settings.ENVIRONMENT` points at it."""
    client: Redis = Redis.from_url(services.redis_url, decode_responses=True)
    client.flushall()
    yield client
    client.close()


@pytest.fixture(scope="session")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[BrokerProcess]:
    """mqcore, or Apache Kafka with `TEST_BROKER=kafka`; topics are made by whoever needs them. `settings.ENVIRONMENT`
    points at it."""
    from django.conf import settings

    with make_broker(tmp_path_factory.mktemp("broker"), {"auto.create.topics.enable": "false"}) as process:
        settings.ENVIRONMENT = replace(settings.ENVIRONMENT, kafka_bootstrap_servers=process.address)
        yield process


# ── many at once ─────────────────────────────────────────────────────────────────────────────────


def together(works: Sequence[Callable[[], Result]]) -> list[Result | BaseException]:
    """Run them in threads that begin at the same moment, each with a database connection of its own; what each gave."""
    from django.db import connection

    barrier = threading.Barrier(len(works))
    results: list[Result | BaseException] = [TimeoutError("did not end")] * len(works)

    def run(number: int, work: Callable[[], Result]) -> None:
        try:
            connection.ensure_connection()
            barrier.wait(PATIENCE_S)
            results[number] = work()
        except BaseException as error:
            results[number] = error
        finally:
            connection.close()

    threads = [threading.Thread(target=run, args=(number, work), daemon=True) for number, work in enumerate(works)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(PATIENCE_S)
    return results


def until(holds: Callable[[], object], what: str, patience_s: float = PATIENCE_S) -> None:
    deadline = time.monotonic() + patience_s
    while not holds():
        assert time.monotonic() < deadline, f"waited in vain for {what}"
        time.sleep(0.02)
