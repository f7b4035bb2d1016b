"""Postgres, Redis and mqcore for tests: real processes on free ports, started once per session.

A test that uses `db` or `transactional_db` (or lies in tests/concurrency) has a database with all tables on this
Postgres, and `settings.ENVIRONMENT` points at the servers. A test that uses none of these fixtures starts nothing.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any, TypeVar

import pytest
from redis import Redis

from seckill.stack.broker_process import BrokerProcess
from seckill.stack.child_processes import free_ports, wait_until
from seckill.stack.server_set import running_postgres, running_redis
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
        """Variables for a process that works on the test's database, which must exist by then."""
        from django.conf import settings

        base = {name: value for name, value in os.environ.items() if not name.startswith("SECKILL_")}
        database = settings.DATABASES["default"]
        return base | {
            "DJANGO_SETTINGS_MODULE": "seckill.config.settings",
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
    made = Services(*free_ports(2))
    options = ("-c", "fsync=off", "-c", "shared_buffers=64MB")  # tests kill processes, but never the machine
    with running_postgres(folder, made.postgres_port, *options), running_redis(folder, made.redis_port):
        yield made


# ── what pytest-django asks for ──────────────────────────────────────────────────────────────────


@pytest.fixture(scope="session")
def django_db_keepdb() -> bool:
    """The session deletes the whole server afterwards, so no database needs to be dropped."""
    return True


@pytest.fixture(scope="session")
def django_db_modify_db_settings(services: Services) -> None:
    """Do not write Django's permissions after every test: no test reads them, and writing them is slow."""
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
    """mqcore, or Apache Kafka with `TEST_BROKER=kafka`, without topics; `settings.ENVIRONMENT` points at it."""
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


def until(holds: Callable[[], object], what: str, seconds_max: float = PATIENCE_S) -> None:
    wait_until(holds, what, seconds_max, poll_s=0.02)
