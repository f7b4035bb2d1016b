"""`seckill topics` checks that Redis evicts nothing and that the broker answers."""

from __future__ import annotations

from unittest import mock

import pytest
from kafka.errors import KafkaTimeoutError
from redis import Redis

from seckill.cli.__main__ import main
from seckill.messaging.redis_eviction import EvictionEnabled, require_no_eviction
from seckill.resilience.redis_servers import USES, RedisServer
from tests.services import Services


def test_a_redis_that_evicts_is_refused_by_name(redis: Redis, services: Services) -> None:
    require_no_eviction([RedisServer(USES, services.redis_url)])
    before = str(redis.config_get("maxmemory-policy")["maxmemory-policy"])
    redis.config_set("maxmemory-policy", "allkeys-lru")
    try:
        with pytest.raises(
            EvictionEnabled, match=f"{services.redis_port}/0 has maxmemory-policy allkeys-lru; .* noeviction"
        ):
            require_no_eviction([RedisServer(USES, services.redis_url)])
    finally:
        redis.config_set("maxmemory-policy", before)


def test_a_broker_that_does_not_answer_is_reported_in_one_line(
    redis: Redis, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    unavailable = mock.Mock(side_effect=KafkaTimeoutError("Unable to bootstrap"))
    monkeypatch.setattr("seckill.messaging.server_setup.create_topics", unavailable)
    assert main(["topics"]) == 3
    [line] = capsys.readouterr().err.splitlines()
    assert line.startswith("seckill: the broker is unavailable or refuses: ")
    assert "Unable to bootstrap" in line
