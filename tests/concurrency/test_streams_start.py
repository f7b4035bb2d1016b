"""What is needed before a start: a Redis that throws no keys away, and a broker that answers."""

from __future__ import annotations

from unittest import mock

import pytest
from kafka.errors import KafkaTimeoutError
from redis import Redis

from seckill.rewiring import make_topics
from seckill.streams.eviction import Evicts, refuse_eviction
from tests.services import Services


def test_a_redis_that_evicts_is_refused_by_name(redis: Redis, services: Services) -> None:
    refuse_eviction([services.redis_url])
    before = str(redis.config_get("maxmemory-policy")["maxmemory-policy"])
    redis.config_set("maxmemory-policy", "allkeys-lru")
    try:
        with pytest.raises(Evicts, match=f"{services.redis_port}/0 has maxmemory-policy allkeys-lru; .* noeviction"):
            refuse_eviction([services.redis_url])
    finally:
        redis.config_set("maxmemory-policy", before)


def test_a_broker_that_does_not_answer_is_one_line_with_its_address(
    redis: Redis, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    away = mock.Mock(side_effect=KafkaTimeoutError("Unable to bootstrap"))
    monkeypatch.setattr("seckill.streams.cluster.create_topics", away)
    assert make_topics("elsewhere:1") == 1
    [said] = capsys.readouterr().err.splitlines()
    assert said.startswith("seckill: the topics cannot be made at elsewhere:1: KafkaTimeoutError")
