"""What a client hears when the metadata log cannot take what it asked for."""

from __future__ import annotations

import pytest

from mqcore.apis import create_topics
from mqcore.controller.machine import ControllerMachine
from mqcore.partitions.hosted import HostedPartitions
from mqcore.wire.errors import ErrorCode
from tests.unit.mqcore.apis.stack import Stack, StackCall


def test_a_metadata_log_that_is_gone_refuses_every_entry_and_changes_nothing(stack: Stack) -> None:
    stack.create("orders")
    stack.services.observer.partition.go_offline("the disk is gone")
    topics = [{"name": name, "num_partitions": 1, "replication_factor": 1} for name in ("a", "b")]
    assert [made.error_code for made in stack.ask(19, 7, topics=topics).topics] == [ErrorCode.KAFKA_STORAGE_ERROR] * 2
    (gone,) = stack.ask(20, 6, topics=[{"name": "orders", "topic_id": None}]).responses
    assert gone.error_code == ErrorCode.KAFKA_STORAGE_ERROR and "the disk is gone" in gone.error_message
    resources = [{"resource_type": 2, "resource_name": "orders", "configs": [{"name": "flush.ms", "value": "5"}]}]
    (kept,) = stack.ask(33, 2, resources=resources).responses
    assert kept.error_code == ErrorCode.KAFKA_STORAGE_ERROR
    assert set(stack.services.image.topics) == {"orders"}


def test_a_command_that_fails_unexpectedly_is_answered_and_the_next_one_is_decided(
    stack: Stack, monkeypatch: pytest.MonkeyPatch
) -> None:
    topics = [{"name": "orders", "num_partitions": 1, "replication_factor": 1}]
    with monkeypatch.context() as patch:
        patch.setattr(ControllerMachine, "decide", lambda *arguments: 1 // 0)
        for _ in range(2):
            (made,) = stack.ask(19, 7, topics=topics).topics
            assert made.error_code == ErrorCode.UNKNOWN_SERVER_ERROR
            assert "the broker's log" in made.error_message
    stack.create("orders")
    assert set(stack.services.image.topics) == {"orders"}


def test_a_committed_change_that_cannot_be_carried_out_holds_up_no_later_command(
    stack: Stack, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    with monkeypatch.context() as patch:
        patch.setattr(HostedPartitions, "open", lambda *arguments: 1 // 0)
        stack.create("orders")
    assert "could not be carried out" in caplog.text
    stack.create("payments")
    assert stack.services.partitions.get("payments", 0) is not None


def test_an_answer_that_cannot_be_made_closes_its_connection_and_holds_up_no_later_command(
    stack: Stack, monkeypatch: pytest.MonkeyPatch
) -> None:
    hung_up: list[StackCall] = []
    answer = StackCall.answer
    monkeypatch.setattr(StackCall, "hang_up", lambda call: hung_up.append(call))
    monkeypatch.setattr(StackCall, "answer", lambda call, response: answer(call, response or {"topics": []}))
    with monkeypatch.context() as patch:
        patch.setattr(create_topics, "_result", lambda *arguments: 1 // 0)
        topics = [{"name": "orders", "num_partitions": 1, "replication_factor": 1}]
        assert not stack.ask(19, 7, topics=topics).topics
    assert len(hung_up) == 1
    stack.create("payments")
