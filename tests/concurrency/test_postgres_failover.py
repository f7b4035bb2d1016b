"""The primary Postgres is lost and its standby promoted: acknowledged commits stay, connections find the new server."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import psycopg
import pytest
from django.db import InternalError, OperationalError, connections
from django.db.backends.base.base import BaseDatabaseWrapper
from django.db.utils import ConnectionHandler

from seckill.config.database import settings_of
from seckill.messaging.batch_worker import TRANSIENT_FAULTS
from seckill.stack.postgres_pair import PostgresPair
from tests.services import until

ADD, NUMBERS = "INSERT INTO numbers VALUES (%s)", "SELECT array_agg(number ORDER BY number) FROM numbers"


@pytest.fixture
def pair(tmp_path: Path) -> Iterator[PostgresPair]:
    with PostgresPair(tmp_path / "pair", ["-c", "shared_buffers=16MB"]) as pair:
        with psycopg.connect(url_of(pair), autocommit=True) as connection:
            connection.execute("CREATE TABLE numbers (number int)")
        yield pair


def url_of(pair: PostgresPair) -> str:
    return pair.settings["SECKILL_DATABASE_URL"]


def django_connection(url: str, **different: Any) -> BaseDatabaseWrapper:
    made = settings_of(url)
    return ConnectionHandler({"default": made | {"OPTIONS": made["OPTIONS"] | different}})["default"]


def add(connection: BaseDatabaseWrapper, number: int) -> None:
    with connection.cursor() as cursor:
        cursor.execute(ADD, [number])


def numbers(pair: PostgresPair) -> list[int]:
    with psycopg.connect(url_of(pair)) as connection:
        [(found,)] = connection.execute(NUMBERS).fetchall()
        return list(found)


def test_every_connection_finds_the_promoted_server_after_one_failed_statement(pair: PostgresPair) -> None:
    kept = django_connection(url_of(pair))
    pooled = django_connection(url_of(pair), pool={"min_size": 1, "max_size": 2, "timeout": 10})
    pooled.settings_dict["CONN_MAX_AGE"] = 0
    add(kept, 1)
    add(pooled, 2)
    pooled.close()
    pair.fail_over()
    with pytest.raises(OperationalError) as fault:
        add(kept, 3)
    assert isinstance(fault.value, TRANSIENT_FAULTS), "the batch is read again"
    kept.close_if_unusable_or_obsolete()
    add(kept, 3)
    add(pooled, 4)  # a pool checks a connection before it hands it out
    assert numbers(pair) == [1, 2, 3, 4]
    pair.bring_back_as_standby()
    with psycopg.connect(url_of(pair)) as connection:
        assert connection.info.port == pair.ports[pair.primary], "the first host of the address only reads now"
    kept.close()
    pooled.close_pool()  # type: ignore[attr-defined]


def test_a_commit_that_was_acknowledged_is_on_the_standby(pair: PostgresPair) -> None:
    """While the standby is away, a COMMIT waits. One that does not wait is acknowledged, and lost."""
    pair.kill(pair.standby)
    waiting = threading.Thread(target=commit, args=(pair, 1), daemon=True)
    waiting.start()
    with psycopg.connect(url_of(pair), autocommit=True) as connection:
        until(lambda: connection.execute(WAITING_COMMITS).fetchone() == (1,), "the commit to wait for the standby")
        pair.start(pair.standby)
        waiting.join(60)
        assert not waiting.is_alive()
        pair.kill(pair.standby)
        connection.execute("SET synchronous_commit = local")  # the guard is switched off
        connection.execute(ADD, [2])
    pair.kill(pair.primary)
    pair.start(pair.standby)
    pair.promote_standby()
    assert numbers(pair) == [1]


WAITING_COMMITS = "SELECT count(*) FROM pg_stat_activity WHERE wait_event = 'SyncRep'"


def commit(pair: PostgresPair, number: int) -> None:
    with psycopg.connect(url_of(pair), autocommit=True) as connection:
        connection.execute(ADD, [number])


def test_a_former_primary_that_still_runs_acknowledges_nothing(pair: PostgresPair) -> None:
    """Its standby was promoted without fencing, and a client is still connected. The commit of the client waits for a
    standby that does not follow this server any more."""
    former = pair.primary
    client = psycopg.connect(url_of(pair), autocommit=True)
    pair.promote_standby(while_primary_runs=True)
    worker = threading.Thread(target=lambda: swallow(lambda: client.execute(ADD, [1])), daemon=True)
    worker.start()
    address = f"postgresql://seckill@127.0.0.1:{pair.ports[former]}/seckill"
    with psycopg.connect(address, autocommit=True) as connection:
        until(lambda: connection.execute(WAITING_COMMITS).fetchone() == (1,), "the commit to wait in vain")
        assert connection.execute("SELECT count(*) FROM numbers").fetchone() == (0,), "and no session sees its row"
    pair.kill(former)
    worker.join(60)
    with psycopg.connect(url_of(pair)) as connection:
        assert connection.execute("SELECT count(*) FROM numbers").fetchone() == (0,)


def swallow(call: Callable[[], object]) -> None:
    try:
        call()
    except psycopg.OperationalError:
        pass  # the server was killed


# ── a session on a server that only reads ────────────────────────────────────────────────────────

DJANGOS_OWN = "django.db.backends.postgresql"


@pytest.mark.parametrize("engine", ["seckill.config.postgres", DJANGOS_OWN])
def test_a_session_that_only_reads_is_replaced_unless_djangos_own_backend_keeps_it(engine: str) -> None:
    mine = ConnectionHandler({"default": connections["default"].settings_dict | {"ENGINE": engine}})["default"]
    with mine.cursor() as cursor:
        cursor.execute("SET default_transaction_read_only = on")  # as if it had landed on a standby
        with pytest.raises(InternalError) as fault:
            cursor.execute("CREATE TABLE made_after_a_failover ()")
    assert isinstance(fault.value, TRANSIENT_FAULTS), "no record becomes a dead letter"
    mine.close_if_unusable_or_obsolete()
    with mine.cursor() as cursor:
        cursor.execute("SHOW transaction_read_only")
        assert cursor.fetchone() == ("on" if engine == DJANGOS_OWN else "off",)
    mine.close()
