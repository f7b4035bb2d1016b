"""Admission, gate and Celery behind Sentinels, before and after they promote the replica."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from uuid import uuid4

import pytest
from celery import Celery
from kombu.exceptions import OperationalError
from redis.exceptions import RedisError

from gateway.admission import Verdict
from inventory import gate, sweep
from notifications import tasks
from seckill.config.redis_address import celery_settings
from seckill.messaging.redis_eviction import require_no_eviction
from seckill.resilience import redis_client
from seckill.resilience.redis_servers import USES, RedisServer
from seckill.stack.redis_groups import RedisSentinels
from tests.concurrency.redis_group_cast import redis_at
from tests.concurrency.stock_cast import assert_gate_agrees, create_stock, decide, request
from tests.concurrency.test_gateway_admission import ask
from tests.gateway_loop import admit_requests
from tests.services import until


@pytest.fixture
def sentinels(tmp_path: Path) -> Iterator[RedisSentinels]:
    with RedisSentinels(tmp_path) as servers, redis_at(servers.url(0), servers.url(0), servers.url(1)):
        yield servers


def test_every_client_finds_the_master_that_the_sentinels_promote(sentinels: RedisSentinels) -> None:
    require_no_eviction([RedisServer(USES, sentinels.url(0))])
    celery = Celery("test", **celery_settings(sentinels.url(1)))
    stock = create_stock(10)
    sweep.run_once()
    decide([request(stock, f"user-{number}") for number in range(4)])
    stock.refresh_from_db()
    epoch, channel = stock.gate_epoch, "sms"
    [admitted] = admit_requests([ask()])
    assert admitted.verdict is Verdict.ADMITTED
    enqueue(celery, channel)
    assert tasks.queue_length(channel) == 1
    assert len(list(redis_client.servers_of(sentinels.url(0), 5))) == 2
    sentinels.kill(2)  # the first Sentinel of the address is lost, too, as if it had been on the same machine
    sentinels.fail_over()
    until(lambda: works(lambda: admit_requests([ask()])), "admission")
    until(lambda: works(sweep.run_once), "the sweep")
    until(lambda: works(lambda: enqueue(celery, channel)), "Celery")
    assert tasks.queue_length(channel) >= 1
    stock.refresh_from_db()
    assert stock.gate_epoch > epoch, "the new master's run id differs"
    assert_gate_agrees(gate.redis(), stock)


def enqueue(celery: Celery, channel: str) -> None:
    celery.send_task("work", queue=tasks.queue_name(channel), retry=False, task_id=str(uuid4()))


def works(call: Callable[[], object]) -> bool:
    try:
        call()
    except (RedisError, OperationalError):
        return False
    return True
