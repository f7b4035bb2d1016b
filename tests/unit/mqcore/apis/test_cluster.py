"""DescribeCluster, DescribeQuorum, ElectLeaders, reassignments and log directories of a cluster with one broker."""

from __future__ import annotations

from pathlib import Path
from typing import Any
from uuid import UUID

import pytest

from mqcore.controller.cluster_commands import Heartbeat, RegisterBroker
from mqcore.controller.commands import ControllerCommand, CreateTopics, NewTopic
from mqcore.controller.facts import Endpoint, ResourceType
from mqcore.identity import BrokerId, Offset
from mqcore.wire.errors import ErrorCode
from tests.unit.mqcore.apis.running_broker import RunningBroker

LOG_DIRS, MOVE, ELECT, REASSIGN, REASSIGNMENTS, QUORUM, CLUSTER = 35, 34, 43, 45, 46, 55, 60
METADATA = 3
UNKNOWN = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION


@pytest.mark.parametrize("version", [0, 2])
def test_clients_get_the_address_advertised_for_their_listener(broker: RunningBroker, version: int) -> None:
    described = broker.request(CLUSTER, version)
    (node,) = described.brokers
    endpoint = broker.services.endpoint(1, "PLAINTEXT")
    assert (node.broker_id, (node.host, node.port)) == (1, endpoint) and node.port > 0
    assert (described.cluster_id, described.controller_id) == (broker.services.cluster_id, 1)
    assert described.cluster_authorized_operations == -(2**31)


def test_without_access_control_every_operation_is_allowed(broker: RunningBroker) -> None:
    described = broker.request(CLUSTER, 0, include_cluster_authorized_operations=True)
    assert described.cluster_authorized_operations == 0b1_1111_1010_0000


@pytest.mark.parametrize(
    ("endpoint_type", "error"),
    [(2, ErrorCode.MISMATCHED_ENDPOINT_TYPE), (3, ErrorCode.UNSUPPORTED_ENDPOINT_TYPE)],
)
def test_a_broker_listener_refuses_to_describe_controllers(
    broker: RunningBroker, endpoint_type: int, error: ErrorCode
) -> None:
    described = broker.request(CLUSTER, 1, endpoint_type=endpoint_type)
    assert (described.error_code, described.endpoint_type, described.brokers) == (error, endpoint_type, [])


@pytest.mark.parametrize("version", [0, 1, 2])
def test_this_broker_is_the_only_voter_of_the_metadata_log(broker: RunningBroker, version: int) -> None:
    broker.create_topic("orders")
    wanted = [
        {"topic_name": "__cluster_metadata", "partitions": [{"partition_index": 0}, {"partition_index": 1}]},
        {"topic_name": "orders", "partitions": [{"partition_index": 0}]},
    ]
    described = broker.request(QUORUM, version, topics=wanted)
    (metadata, second), (orders,) = (topic.partitions for topic in described.topics)
    assert (metadata.error_code, metadata.leader_id, metadata.observers) == (ErrorCode.NONE, 1, [])
    assert metadata.high_watermark == broker.services.observer.applied_end > 0
    (voter,) = metadata.current_voters
    assert (voter.replica_id, voter.log_end_offset) == (1, metadata.high_watermark)
    assert (second.error_code, orders.error_code) == (UNKNOWN, UNKNOWN)
    if version >= 2:
        assert voter.replica_directory_id == broker.services.directory_id
        assert [node.node_id for node in described.nodes] == [1]


@pytest.mark.parametrize("version", [0, 1, 2])
def test_a_partition_needs_no_election(broker: RunningBroker, version: int) -> None:
    broker.create_topic("orders")
    wanted = [{"topic": "orders", "partitions": [0, 7]}, {"topic": "nope", "partitions": [0]}]
    response = broker.request(ELECT, version, topic_partitions=wanted)
    told = {
        (topic.topic, each.partition_id): each.error_code
        for topic in response.replica_election_results
        for each in topic.partition_result
    }
    assert told == {("orders", 0): ErrorCode.ELECTION_NOT_NEEDED, ("orders", 7): UNKNOWN, ("nope", 0): UNKNOWN}


def test_an_election_of_all_partitions_returns_only_those_that_needed_one(broker: RunningBroker) -> None:
    broker.create_topic("orders")
    response = broker.request(ELECT, 2, topic_partitions=None)
    assert (response.error_code, response.replica_election_results) == (ErrorCode.NONE, [])


def test_a_partition_may_be_reassigned_only_to_its_own_broker(broker: RunningBroker) -> None:
    broker.create_topic("orders")

    def reassigned(name: str, index: int, replicas: list[int] | None) -> tuple[int, bool]:
        partitions = [{"partition_index": index, "replicas": replicas}]
        response = broker.request(REASSIGN, 0, topics=[{"name": name, "partitions": partitions}])
        ((answer,),) = (topic.partitions for topic in response.responses)
        return answer.error_code, answer.error_message is None

    assert reassigned("orders", 0, [1]) == (ErrorCode.NONE, True)
    assert reassigned("orders", 0, [2]) == (ErrorCode.INVALID_REPLICA_ASSIGNMENT, False)
    assert reassigned("orders", 0, []) == (ErrorCode.INVALID_REPLICA_ASSIGNMENT, False)
    assert reassigned("orders", 0, None) == (ErrorCode.NO_REASSIGNMENT_IN_PROGRESS, False)
    assert reassigned("orders", 1, [1]) == (UNKNOWN, False)
    assert reassigned("nope", 0, [1]) == (UNKNOWN, False)
    assert broker.request(REASSIGNMENTS, 0, topics=None).topics == []


# A cluster with more brokers


SECOND = RegisterBroker(BrokerId(2), UUID(int=2), (Endpoint("PLAINTEXT", "there", 9092),), "r", (UUID(int=9),))


def unfence(broker: RunningBroker, *more: ControllerCommand) -> None:
    epoch = broker.services.image.brokers[BrokerId(2)].broker_epoch
    broker.submit(Heartbeat(BrokerId(2), epoch, Offset(epoch + 1)), *more)


def test_a_fenced_broker_is_described_only_to_clients_that_ask_for_it(broker: RunningBroker) -> None:
    broker.submit(SECOND)

    def described(version: int, **request: Any) -> list[tuple[int, bool]]:
        return [(node.broker_id, node.is_fenced) for node in broker.request(CLUSTER, version, **request).brokers]

    assert described(2) == described(1) == [(1, False)]
    assert described(2, include_fenced_brokers=True) == [(1, False), (2, True)]
    assert [node.node_id for node in broker.request(METADATA, 12, topics=[]).brokers] == [1]
    unfence(broker)
    assert described(1) == [(1, False), (2, False)]
    assert [node.node_id for node in broker.request(METADATA, 12, topics=[]).brokers] == [1, 2]


def test_a_partition_whose_leader_is_gone_has_no_leader_and_an_offline_replica(broker: RunningBroker) -> None:
    broker.submit(SECOND)
    here = NewTopic("orders", UUID(int=7), assignment=((0, (BrokerId(2),)),))
    epoch = broker.services.image.brokers[BrokerId(2)].broker_epoch
    unfence(broker, CreateTopics((here,)), Heartbeat(BrokerId(2), epoch, Offset(epoch + 1), wants_fence=True))
    (topic,) = broker.request(METADATA, 12, topics=[{"name": "orders"}]).topics
    (partition,) = topic.partitions
    assert (partition.error_code, partition.leader_id) == (ErrorCode.LEADER_NOT_AVAILABLE, -1)
    assert (partition.isr_nodes, partition.offline_replicas) == ([2], [2])


def test_a_partition_that_moves_is_listed_until_the_move_is_cancelled(broker: RunningBroker) -> None:
    broker.create_topic("orders")
    broker.submit(SECOND)
    wanted: list[dict[str, Any]] = [{"partition_index": 0, "replicas": [2]}]
    broker.request(REASSIGN, 1, topics=[{"name": "orders", "partitions": wanted}])
    (topic,) = broker.request(REASSIGNMENTS, 0, topics=None).topics
    (moving,) = topic.partitions
    assert (moving.replicas, moving.adding_replicas, moving.removing_replicas) == ([2, 1], [2], [1])
    named = [{"name": "orders", "partition_indexes": [1]}]
    assert broker.request(REASSIGNMENTS, 0, topics=named).topics == []
    wanted[0]["replicas"] = None
    broker.request(REASSIGN, 1, topics=[{"name": "orders", "partitions": wanted}])
    assert broker.request(REASSIGNMENTS, 0, topics=None).topics == []


def test_the_first_file_gives_the_cluster_its_min_isr_and_a_later_one_does_not_change_it(tmp_path: Path) -> None:
    for value in ("2", "1"):
        with RunningBroker(tmp_path, f"min.insync.replicas={value}") as broker:
            if value == "2":
                broker.create_topic("orders")
            assert broker.services.image.configs(ResourceType.BROKER, "") == {"min.insync.replicas": "2"}
            assert broker.log_settings("orders").min_insync_replicas == 2


@pytest.mark.parametrize("election_type", [0, 1, 2])
def test_an_election_of_an_unknown_type_is_refused(broker: RunningBroker, election_type: int) -> None:
    response = broker.request(ELECT, 2, election_type=election_type, topic_partitions=[])
    assert response.error_code == (ErrorCode.INVALID_REQUEST if election_type == 2 else ErrorCode.NONE)


# Folders


def sizes(result: Any) -> dict[tuple[str, int], int]:
    return {
        (topic.name, each.partition_index): each.partition_size for topic in result.topics for each in topic.partitions
    }


@pytest.mark.parametrize("version", [1, 4])
def test_the_data_folder_lists_every_topic_but_not_the_metadata_log(broker: RunningBroker, version: int) -> None:
    broker.create_topic("orders", 2)
    broker.append_records("orders", 3)
    (result,) = broker.request(LOG_DIRS, version, topics=None).results
    assert (result.error_code, result.log_dir) == (ErrorCode.NONE, str(broker.data))
    assert sizes(result) == {
        ("orders", 0): (broker.data / "orders-0" / f"{0:020}.log").stat().st_size,
        ("orders", 1): 0,
    }
    assert (result.usable_bytes > 0) is (version >= 4)


@pytest.mark.parametrize(("asks", "expected"), [(True, (3, 3)), (False, (-1, -1))])
def test_how_far_a_replica_is_is_said_only_to_a_client_that_asks(
    broker: RunningBroker, asks: bool, expected: tuple[int, int]
) -> None:
    """Some clients fail on tagged fields that they do not know."""
    broker.create_topic("orders")
    broker.append_records("orders", 3)
    (result,) = broker.request(LOG_DIRS, 4, topics=None, include_offsets=asks).results
    (found,) = result.topics[0].partitions
    assert (found.log_end_offset, found.high_watermark) == expected


def test_only_requested_partitions_are_listed_each_once(broker: RunningBroker) -> None:
    broker.create_topic("orders", 2)
    wanted = [{"topic": "orders", "partitions": [1, 1, 9]}, {"topic": "nope", "partitions": [0]}]
    (result,) = broker.request(LOG_DIRS, 4, topics=wanted).results
    assert list(sizes(result)) == [("orders", 1)]


def test_a_relative_data_folder_is_reported_as_an_absolute_path(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    with RunningBroker(Path("here")) as broker:
        (result,) = broker.request(LOG_DIRS, 4, topics=None).results
    assert result.log_dir == str(tmp_path / "here")


@pytest.mark.parametrize("version", [1, 2])
def test_a_replica_may_be_moved_only_to_its_own_folder(broker: RunningBroker, version: int) -> None:
    broker.create_topic("orders")
    wanted = [
        {"path": f"{broker.data}/", "topics": [{"name": "orders", "partitions": [0, 7]}]},
        {"path": "/elsewhere", "topics": [{"name": "stock", "partitions": [0]}]},
    ]
    results = broker.request(MOVE, version, dirs=wanted).results
    told = {(topic.topic_name, each.partition_index): each.error_code for topic in results for each in topic.partitions}
    assert told == {("orders", 0): ErrorCode.NONE, ("orders", 7): UNKNOWN, ("stock", 0): ErrorCode.LOG_DIR_NOT_FOUND}
