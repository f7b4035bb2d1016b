"""What a client is answered when its change cannot be written to the metadata log or cannot be applied."""

from __future__ import annotations

import pytest

from mqcore.apis import create_topics
from mqcore.controller.machine import ControllerMachine
from mqcore.partitions.hosted import HostedPartitions
from mqcore.wire.errors import ErrorCode
from tests.unit.mqcore.apis.running_broker import AwaitableCall, RunningBroker


def test_when_the_metadata_log_is_offline_every_entry_is_refused(broker: RunningBroker) -> None:
    broker.create_topic("orders")
    broker.services.quorum.go_offline("the disk is gone")
    topics = [{"name": name, "num_partitions": 1, "replication_factor": 1} for name in ("a", "b")]
    assert [made.error_code for made in broker.request(19, 7, topics=topics).topics] == [
        ErrorCode.KAFKA_STORAGE_ERROR
    ] * 2
    (gone,) = broker.request(20, 6, topics=[{"name": "orders", "topic_id": None}]).responses
    assert gone.error_code == ErrorCode.KAFKA_STORAGE_ERROR and "the disk is gone" in gone.error_message
    resources = [{"resource_type": 2, "resource_name": "orders", "configs": [{"name": "flush.ms", "value": "5"}]}]
    (kept,) = broker.request(33, 2, resources=resources).responses
    assert kept.error_code == ErrorCode.KAFKA_STORAGE_ERROR
    assert set(broker.services.image.topics) == {"orders"}


def test_after_a_command_that_raises_the_next_one_is_still_decided(
    broker: RunningBroker, monkeypatch: pytest.MonkeyPatch
) -> None:
    topics = [{"name": "orders", "num_partitions": 1, "replication_factor": 1}]
    with monkeypatch.context() as patch:
        patch.setattr(ControllerMachine, "decide", lambda *arguments: 1 // 0)
        for _ in range(2):
            (made,) = broker.request(19, 7, topics=topics).topics
            assert made.error_code == ErrorCode.UNKNOWN_SERVER_ERROR
            assert "the broker's log" in made.error_message
    broker.create_topic("orders")
    assert set(broker.services.image.topics) == {"orders"}


def test_a_committed_change_that_cannot_be_applied_does_not_block_later_commands(
    broker: RunningBroker, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    with monkeypatch.context() as patch:
        patch.setattr(HostedPartitions, "open", lambda *arguments: 1 // 0)
        broker.create_topic("orders")
    assert "could not be carried out" in caplog.text
    broker.create_topic("payments")
    assert broker.services.partitions.get("payments", 0) is not None


def test_an_answer_that_cannot_be_built_closes_its_connection_and_blocks_no_later_command(
    broker: RunningBroker, monkeypatch: pytest.MonkeyPatch
) -> None:
    hung_up: list[AwaitableCall] = []
    answer = AwaitableCall.answer
    monkeypatch.setattr(AwaitableCall, "hang_up", lambda call: hung_up.append(call))
    monkeypatch.setattr(AwaitableCall, "answer", lambda call, response: answer(call, response or {"topics": []}))
    with monkeypatch.context() as patch:
        patch.setattr(create_topics, "_result", lambda *arguments: 1 // 0)
        topics = [{"name": "orders", "num_partitions": 1, "replication_factor": 1}]
        assert not broker.request(19, 7, topics=topics).topics
    assert len(hung_up) == 1
    broker.create_topic("payments")
