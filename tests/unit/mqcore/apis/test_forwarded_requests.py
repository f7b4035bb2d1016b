"""The active controller on another node: what a broker forwards to it for its clients."""

from __future__ import annotations

import pytest

from mqcore.apis import create_topics, forwarding
from mqcore.apis.controller_table import CONTROLLER_TABLE
from mqcore.apis.table import TABLE
from mqcore.controller.cluster_commands import (
    Heartbeat,
)
from mqcore.controller.forwarder import CATCH_UP_MS_MAX, FORWARD_MS_MAX
from mqcore.identity import OFFSETS_TOPIC, BrokerId, Offset
from mqcore.wire.errors import ErrorCode
from tests.unit.mqcore.apis.two_nodes import TwoNodes, in_a_loop

FORWARDED = {19, 20, 33, 37, 43, 44, 45, 46, 55, 64, 80}
"""Kafka forwards these, and others that are not served here. A voter is adopted by the leader of the quorum."""

ORDERS = {"name": "orders", "num_partitions": 1, "replication_factor": 1}


def test_the_table_of_forwarded_requests() -> None:
    assert {key for key, entry in TABLE.items() if entry.api.forwarded} == FORWARDED & set(TABLE)
    assert not any(entry.api.forwarded for entry in CONTROLLER_TABLE.values())


# ── what clients ask ─────────────────────────────────────────────────────────────────────────────


@in_a_loop
async def test_a_client_of_any_broker_can_create_a_topic_and_finds_it_there(nodes: TwoNodes) -> None:
    client = nodes.client(nodes.two)
    client.send(19, 7, topics=[ORDERS])
    await nodes.settle()
    assert client.answers == [], "this broker does not have the topic yet"
    nodes.replicate()
    await nodes.settle()
    (created,) = client.answers[0].topics
    assert created.error_code == ErrorCode.NONE and created.topic_id is not None
    assert nodes.two.observer.image.topics["orders"].id == created.topic_id


@in_a_loop
async def test_a_broker_that_cannot_catch_up_passes_the_answer_on_in_the_end(nodes: TwoNodes) -> None:
    client = nodes.client(nodes.two)
    client.send(19, 7, topics=[ORDERS])
    await nodes.settle()
    await nodes.pass_time(CATCH_UP_MS_MAX, step=500)
    assert client.answers[0].topics[0].error_code == ErrorCode.NONE


@in_a_loop
async def test_the_controllers_own_clients_are_served_without_forwarding(nodes: TwoNodes) -> None:
    client = nodes.client(nodes.one)
    client.send(19, 7, topics=[ORDERS])
    await nodes.settle()
    assert client.answers[0].topics[0].error_code == ErrorCode.NONE
    client.send(20, 3, topic_names=["orders"])  # a version with a simple head
    await nodes.settle()
    assert client.answers[1].responses[0].error_code == ErrorCode.NONE


@in_a_loop
async def test_answers_keep_the_order_of_the_requests(nodes: TwoNodes) -> None:
    client = nodes.client(nodes.two)
    client.send(20, 1, topic_names=["nope"])
    client.send(18, 0)
    client.send(37, 2, topics=[], timeout_ms=1000)
    await nodes.settle()
    first, second, _ = client.answers
    assert first.responses[0].error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert {entry.api_key for entry in second.api_keys} == set(TABLE)


@in_a_loop
async def test_a_request_waits_for_the_next_controller(nodes: TwoNodes) -> None:
    nodes.one.quorum.lose()
    client = nodes.client(nodes.two)
    client.send(19, 7, topics=[ORDERS])
    await nodes.pass_time(500)
    assert client.answers == []
    await nodes.elect(1)
    await nodes.pass_time(100)
    nodes.replicate()
    await nodes.pass_time(100)
    assert client.answers[0].topics[0].error_code == ErrorCode.NONE


@in_a_loop
async def test_a_request_is_served_here_if_this_node_becomes_the_controller(nodes: TwoNodes) -> None:
    nodes.one.quorum.lose()
    client = nodes.client(nodes.two)
    client.send(19, 7, topics=[ORDERS])
    await nodes.pass_time(100)
    await nodes.elect(2)
    await nodes.pass_time(100)
    assert client.answers[0].topics[0].error_code == ErrorCode.NONE
    assert "orders" in nodes.two.observer.image.topics


@in_a_loop
async def test_a_request_under_way_when_the_controller_changes_is_asked_again(nodes: TwoNodes) -> None:
    nodes.one.quorum.holds = True
    client = nodes.client(nodes.two)
    client.send(19, 7, topics=[ORDERS])
    await nodes.settle()
    nodes.one.quorum.lose()
    nodes.one.quorum.holds = False
    await nodes.elect(2)
    await nodes.pass_time(200)
    assert client.answers[0].topics[0].error_code == ErrorCode.NONE


@in_a_loop
async def test_a_request_to_a_controller_that_hangs_is_repeated_when_another_is_elected(nodes: TwoNodes) -> None:
    nodes.one.quorum.holds = True  # and it does not hear of its successor
    client = nodes.client(nodes.two)
    client.send(19, 7, topics=[ORDERS])
    await nodes.pass_time(100)
    assert client.answers == []
    nodes.two.quorum.elect(BrokerId(2))
    await nodes.pass_time(100)
    assert client.answers[0].topics[0].error_code == ErrorCode.NONE


@in_a_loop
async def test_without_a_controller_the_client_hears_so_in_the_terms_of_its_request(nodes: TwoNodes) -> None:
    nodes.one.quorum.lose()
    client = nodes.client(nodes.two)
    client.send(19, 7, topics=[ORDERS])
    client.send(64, 0, broker_id=1)
    client.send(44, 1, resources=[{"resource_type": 2, "resource_name": "orders", "configs": []}])
    await nodes.pass_time(FORWARD_MS_MAX + 100)
    created, unregistered, altered = client.answers
    assert created.topics[0].error_code == ErrorCode.NOT_CONTROLLER
    assert unregistered.error_code == ErrorCode.NOT_CONTROLLER
    assert altered.responses[0].error_code == ErrorCode.NOT_CONTROLLER


@in_a_loop
async def test_clients_take_the_broker_that_they_ask_or_another_live_one_for_the_controller(nodes: TwoNodes) -> None:
    await nodes.elect(2)
    assert [node.services.controller_id() for node in (nodes.one, nodes.two)] == [1, 2]
    epochs = [nodes.two.observer.image.brokers[BrokerId(number)].broker_epoch for number in (1, 2)]
    await nodes.submit(nodes.two, Heartbeat(BrokerId(2), epochs[1], Offset(0), wants_fence=True))
    assert nodes.two.services.controller_id() == 1
    await nodes.submit(nodes.two, Heartbeat(BrokerId(1), epochs[0], Offset(0), wants_fence=True))
    assert nodes.two.services.controller_id() == -1
    client = nodes.client(nodes.two)
    client.send(60, 0)
    await nodes.settle()
    assert (client.answers[0].controller_id, client.answers[0].brokers) == (-1, [])


@in_a_loop
async def test_a_large_request_may_be_the_first_that_is_forwarded(nodes: TwoNodes) -> None:
    client = nodes.client(nodes.two)
    client.send(20, 1, topic_names=["nope"])  # a client's own connection begins with a small one
    await nodes.settle()
    for pipe in nodes.one.pipes:
        pipe.abort()
    await nodes.pass_time(100)
    client.send(20, 1, topic_names=["n" * 200] * 6_000)
    await nodes.settle()
    assert len(client.answers[1].responses) == 6_000


@in_a_loop
async def test_a_client_cannot_create_an_internal_topic_by_forwarding(nodes: TwoNodes) -> None:
    client = nodes.client(nodes.two)
    client.send(19, 7, topics=[{**ORDERS, "name": OFFSETS_TOPIC}])
    await nodes.settle()
    assert client.answers[0].topics[0].error_code == ErrorCode.INVALID_TOPIC_EXCEPTION


@in_a_loop
async def test_without_its_principal_a_client_could_create_one(nodes: TwoNodes) -> None:
    client = nodes.client(nodes.two)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(forwarding, "ANYBODY", None)
        client.send(19, 7, topics=[{**ORDERS, "name": OFFSETS_TOPIC}])
        await nodes.settle()
    assert OFFSETS_TOPIC in nodes.one.observer.image.topics


@in_a_loop
async def test_a_broker_is_unregistered_through_any_broker(nodes: TwoNodes) -> None:
    client = nodes.client(nodes.two)
    client.send(64, 0, broker_id=9)
    client.send(64, 0, broker_id=1)
    await nodes.settle()
    epoch = nodes.one.observer.image.brokers[BrokerId(1)].broker_epoch
    await nodes.submit(nodes.one, Heartbeat(BrokerId(1), epoch, Offset(0), wants_fence=True))
    client.send(64, 0, broker_id=1)
    await nodes.settle()
    nodes.replicate()
    await nodes.settle()
    unknown, running, gone = client.answers
    assert unknown.error_code == ErrorCode.BROKER_ID_NOT_REGISTERED and "9" in unknown.error_message
    assert running.error_code == ErrorCode.INVALID_REQUEST and "stop it first" in running.error_message
    assert gone.error_code == ErrorCode.NONE and BrokerId(1) not in nodes.two.observer.image.brokers


@in_a_loop
async def test_a_handler_that_raises_closes_only_the_connection_of_its_client(nodes: TwoNodes) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(create_topics, "_new_topic", lambda *arguments: 1 // 0)
        client = nodes.client(nodes.two)
        client.send(19, 7, topics=[ORDERS])
        await nodes.settle()
    other = nodes.client(nodes.two)
    other.send(20, 1, topic_names=["nope"])
    await nodes.settle()
    assert not client.is_connected and not client.answers
    assert len(other.answers) == 1
