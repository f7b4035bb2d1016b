"""The active controller on another node: what brokers ask it, and what its listener refuses."""

from __future__ import annotations

from uuid import UUID

from mqcore.apis.controller_table import CONTROLLER_TABLE
from mqcore.controller.cluster_commands import (
    AlteredPartitions,
    AlterPartition,
    Heartbeat,
    HeartbeatAnswer,
    IsrProposal,
    RegisterBroker,
    UnregisterBroker,
    new_incarnation,
)
from mqcore.controller.commands import CreatedTopic, CreateTopics, NewTopic, ProducerIdBlock, ReserveProducerIds
from mqcore.coordination.journal import NotController
from mqcore.identity import OFFSETS_TOPIC, BrokerId, LeaderEpoch, Offset
from mqcore.wire.errors import ErrorCode, Refusal
from mqcore.wire.frames import request_head
from mqcore.wire.messages import encode_request
from tests.unit.mqcore.apis.two_nodes import CONTROLLER, TwoNodes, in_a_loop

ORDERS = {"name": "orders", "num_partitions": 1, "replication_factor": 1}


# ── what brokers ask ─────────────────────────────────────────────────────────────────────────────


@in_a_loop
async def test_a_broker_registers_and_is_unfenced_by_the_controller_on_another_node(nodes: TwoNodes) -> None:
    broker = nodes.one.observer.image.brokers[BrokerId(2)]
    assert not broker.fenced and broker.directories == (UUID(int=2),)
    (heard,) = await nodes.submit(nodes.two, Heartbeat(BrokerId(2), broker.broker_epoch, Offset(99)))
    assert heard == HeartbeatAnswer(True, False, False)


@in_a_loop
async def test_a_registration_for_another_cluster_is_refused(nodes: TwoNodes) -> None:
    nodes.one.services.cluster_id = "another"
    registration = RegisterBroker(BrokerId(2), new_incarnation(2, UUID(int=1)), (), None, (UUID(int=2),))
    assert await nodes.submit(nodes.two, registration) == [Refusal(ErrorCode.INCONSISTENT_CLUSTER_ID)]


@in_a_loop
async def test_producer_ids_are_reserved_on_the_controller_for_the_present_registration(nodes: TwoNodes) -> None:
    asked = [await nodes.submit(node, ReserveProducerIds(node.id)) for node in (nodes.two, nodes.one)]
    assert asked == [[ProducerIdBlock(0, 1000)], [ProducerIdBlock(1000, 1000)]]
    await nodes.submit(nodes.one, UnregisterBroker(BrokerId(2)))
    (refused,) = await nodes.submit(nodes.two, ReserveProducerIds(BrokerId(2)))
    assert isinstance(refused, Refusal) and refused.error is ErrorCode.STALE_BROKER_EPOCH


@in_a_loop
async def test_a_proposal_of_in_sync_replicas_gets_its_own_outcome(nodes: TwoNodes) -> None:
    epoch = nodes.two.observer.image.brokers[BrokerId(2)].broker_epoch
    unknown = IsrProposal(UUID(int=77), 0, LeaderEpoch(0), 0, ((BrokerId(2), epoch),))
    (answer,) = await nodes.submit(nodes.two, AlterPartition(BrokerId(2), epoch, (unknown,)))
    assert isinstance(answer, AlteredPartitions)
    (outcome,) = answer.outcomes
    assert isinstance(outcome, Refusal) and outcome.error is ErrorCode.UNKNOWN_TOPIC_ID


@in_a_loop
async def test_a_broker_creates_an_internal_topic_on_the_controller(nodes: TwoNodes) -> None:
    topic = NewTopic(OFFSETS_TOPIC, UUID(int=1), 3, 1, configs={"cleanup.policy": "compact"})
    answers = await nodes.submit(nodes.two, CreateTopics((topic,), internal=True))
    assert answers == [], "the other broker has not applied it yet"
    nodes.replicate()
    await nodes.settle()
    ((created,),) = answers  # type: ignore[misc]
    assert isinstance(created, CreatedTopic) and created.partitions == 3
    assert nodes.two.observer.image.topics[OFFSETS_TOPIC].configs == {"cleanup.policy": "compact"}


@in_a_loop
async def test_a_command_of_a_client_is_not_sent_as_one_of_the_broker(nodes: TwoNodes) -> None:
    (answer,) = await nodes.submit(nodes.two, UnregisterBroker(BrokerId(1)))
    assert isinstance(answer, NotController)
    assert BrokerId(1) in nodes.one.observer.image.brokers


@in_a_loop
async def test_a_node_that_is_not_active_says_so_to_brokers(nodes: TwoNodes) -> None:
    nodes.one.quorum.lose()  # and node 2 has not heard of it
    (answer,) = await nodes.submit(nodes.two, ReserveProducerIds(BrokerId(2)))
    assert isinstance(answer, NotController)
    nodes.two.quorum.leader = None
    (answer,) = await nodes.submit(nodes.two, ReserveProducerIds(BrokerId(2)))
    assert isinstance(answer, NotController)


@in_a_loop
async def test_a_controller_that_cannot_be_reached_is_a_fault_for_the_caller(nodes: TwoNodes) -> None:
    nodes.one.accepts = False
    for pipe in nodes.one.pipes:
        pipe.abort()
    await nodes.settle()
    (answer,) = await nodes.submit(nodes.two, ReserveProducerIds(BrokerId(2)))
    assert isinstance(answer, NotController)


@in_a_loop
async def test_a_broken_connection_ends_the_session_of_its_broker_soon(nodes: TwoNodes) -> None:
    (heartbeats, *_) = nodes.one.pipes
    heartbeats.abort()
    await nodes.pass_time(525)
    brokers = nodes.one.observer.image.brokers
    assert brokers[BrokerId(2)].fenced and not brokers[BrokerId(1)].fenced


@in_a_loop
async def test_a_broken_connection_of_another_purpose_ends_no_session(nodes: TwoNodes) -> None:
    await nodes.submit(nodes.two, ReserveProducerIds(BrokerId(2)))
    nodes.one.pipes[-1].abort()
    await nodes.pass_time(525)
    assert not nodes.one.observer.image.brokers[BrokerId(2)].fenced


# ── what the controller's listener refuses ───────────────────────────────────────────────────────


@in_a_loop
async def test_each_listener_serves_and_names_its_own_requests(nodes: TwoNodes) -> None:
    client = nodes.client(nodes.one, CONTROLLER)
    client.send(18, 0)
    await nodes.settle()
    assert {entry.api_key for entry in client.answers[0].api_keys} == set(CONTROLLER_TABLE)
    client.send(3, 1, topics=[])
    await nodes.settle()
    assert not client.is_connected
    stranger = nodes.client(nodes.one)
    stranger.send(63, 1, broker_id=2)
    await nodes.settle()
    assert not stranger.is_connected, "a client must not speak for a broker"


@in_a_loop
async def test_an_envelope_carries_only_requests_that_are_forwarded(nodes: TwoNodes) -> None:
    client = nodes.client(nodes.one, CONTROLLER)
    frames = {
        ErrorCode.INVALID_REQUEST: request_head(18, 0, 1, "x") + encode_request(18, 0, {}),
        ErrorCode.UNSUPPORTED_VERSION: request_head(19, 99, 1, "x"),
    }
    for frame in (*frames.values(), b"\0"):
        client.send(58, 0, request_data=frame, client_host_address=b"10.0.0.1")
    await nodes.settle()
    assert [answer.error_code for answer in client.answers] == [*frames, ErrorCode.INVALID_REQUEST]
    other = nodes.client(nodes.two, CONTROLLER)
    other.send(58, 0, request_data=frames[ErrorCode.INVALID_REQUEST], client_host_address=b"")
    await nodes.settle()
    assert other.answers[0].error_code == ErrorCode.NOT_CONTROLLER
