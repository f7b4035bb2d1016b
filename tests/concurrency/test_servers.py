"""The fixtures provide one database for all threads, which is emptied between tests."""

from __future__ import annotations

import uuid

import pytest
from django.db import connection, transaction
from redis import Redis

from seckill.messaging.models import OutboxRow
from tests.services import Services, together


def write() -> int:
    with transaction.atomic():
        OutboxRow.objects.create(writer="test", topic="t", key="k", event_id=uuid.uuid4(), value=b"")
    return OutboxRow.objects.filter(writer="test").count()


@pytest.mark.parametrize("_round", [1, 2])
def test_threads_share_a_database_that_was_empty_before(_round: int, redis: Redis) -> None:
    assert OutboxRow.objects.count() == 0
    assert redis.dbsize() == 0
    redis.set("left", "behind")
    seen = together([write] * 4)
    assert all(isinstance(count, int) for count in seen), seen
    assert max(count for count in seen if isinstance(count, int)) == 4


def test_an_exception_in_a_thread_is_returned() -> None:
    def fail() -> None:
        raise LookupError("nothing")

    [result] = together([fail])
    assert isinstance(result, LookupError)


def test_a_child_process_finds_the_tests_database(services: Services) -> None:
    environment = services.environment(SECKILL_FAULT="x")
    assert environment["SECKILL_DATABASE_URL"].endswith("/test_seckill")
    assert str(connection.settings_dict["NAME"]) == "test_seckill"
    assert environment["SECKILL_FAULT"] == "x"
