"""What `seckill up` says about rights that are missing in somebody else's Kafka cluster. It starts in any case."""

from __future__ import annotations

import pytest
from kafka.errors import KafkaConnectionError

from seckill.config.kafka_properties import KafkaConfig
from seckill.messaging import access_check
from seckill.stack.setup import check_access


def test_each_missing_right_is_one_line(monkeypatch: pytest.MonkeyPatch) -> None:
    said: list[str] = []
    monkeypatch.setattr(access_check, "find_access_gaps", lambda servers, config: [f"nobody may Read in {servers}"])
    check_access("k:9093", KafkaConfig(), said.append)
    assert said == ["missing right: nobody may Read in k:9093"]


def test_a_cluster_that_does_not_answer_does_not_stop_the_start(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(servers: str, config: KafkaConfig) -> list[str]:
        raise KafkaConnectionError

    said: list[str] = []
    monkeypatch.setattr(access_check, "find_access_gaps", fail)
    check_access("k:9093", KafkaConfig(), said.append)
    [line] = said
    assert line.startswith("rights were not checked: ") and line.endswith("`seckill kafka check` does that later")
