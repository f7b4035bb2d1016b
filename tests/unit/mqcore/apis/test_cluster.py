"""DescribeCluster, DescribeQuorum, ElectLeaders, reassignments, log folders: a cluster of one describes itself."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from mqcore.wire.errors import ErrorCode
from tests.unit.mqcore.apis.stack import Stack

LOG_DIRS, MOVE, ELECT, REASSIGN, REASSIGNMENTS, QUORUM, CLUSTER = 35, 34, 43, 45, 46, 55, 60
UNKNOWN = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION


@pytest.mark.parametrize("version", [0, 2])
def test_the_broker_is_told_at_the_address_of_the_listener_that_was_asked(stack: Stack, version: int) -> None:
    described = stack.ask(CLUSTER, version)
    (broker,) = described.brokers
    endpoint = stack.services.endpoint(1, "PLAINTEXT")
    assert (broker.broker_id, (broker.host, broker.port)) == (1, endpoint) and broker.port > 0
    assert (described.cluster_id, described.controller_id) == (stack.services.cluster_id, 1)
    assert described.cluster_authorized_operations == -(2**31)


def test_without_access_control_everything_is_allowed(stack: Stack) -> None:
    described = stack.ask(CLUSTER, 0, include_cluster_authorized_operations=True)
    assert described.cluster_authorized_operations == 0b1_1111_1010_0000


@pytest.mark.parametrize(
    ("endpoint_type", "error"),
    [(2, ErrorCode.MISMATCHED_ENDPOINT_TYPE), (3, ErrorCode.UNSUPPORTED_ENDPOINT_TYPE)],
)
def test_controllers_are_not_to_be_asked_for_here(stack: Stack, endpoint_type: int, error: ErrorCode) -> None:
    described = stack.ask(CLUSTER, 1, endpoint_type=endpoint_type)
    assert (described.error_code, described.endpoint_type, described.brokers) == (error, endpoint_type, [])


@pytest.mark.parametrize("version", [0, 1, 2])
def test_the_quorum_is_this_broker(stack: Stack, version: int) -> None:
    stack.create("orders")
    wanted = [
        {"topic_name": "__cluster_metadata", "partitions": [{"partition_index": 0}, {"partition_index": 1}]},
        {"topic_name": "orders", "partitions": [{"partition_index": 0}]},
    ]
    described = stack.ask(QUORUM, version, topics=wanted)
    (metadata, second), (orders,) = (topic.partitions for topic in described.topics)
    assert (metadata.error_code, metadata.leader_id, metadata.observers) == (ErrorCode.NONE, 1, [])
    assert metadata.high_watermark == stack.services.observer.applied > 0
    (voter,) = metadata.current_voters
    assert (voter.replica_id, voter.log_end_offset) == (1, metadata.high_watermark)
    assert (second.error_code, orders.error_code) == (UNKNOWN, UNKNOWN)
    if version >= 2:
        assert voter.replica_directory_id == stack.services.directory_id
        assert [node.node_id for node in described.nodes] == [1]


@pytest.mark.parametrize("version", [0, 1, 2])
def test_who_should_lead_does_so_already(stack: Stack, version: int) -> None:
    stack.create("orders")
    wanted = [{"topic": "orders", "partitions": [0, 7]}, {"topic": "nope", "partitions": [0]}]
    response = stack.ask(ELECT, version, topic_partitions=wanted)
    told = {
        (topic.topic, each.partition_id): each.error_code
        for topic in response.replica_election_results
        for each in topic.partition_result
    }
    assert told == {("orders", 0): ErrorCode.ELECTION_NOT_NEEDED, ("orders", 7): UNKNOWN, ("nope", 0): UNKNOWN}


def test_an_election_of_all_tells_only_of_those_that_needed_one(stack: Stack) -> None:
    stack.create("orders")
    response = stack.ask(ELECT, 2, topic_partitions=None)
    assert (response.error_code, response.replica_election_results) == (ErrorCode.NONE, [])


def test_a_partition_may_stay_where_it_is_and_nowhere_else(stack: Stack) -> None:
    stack.create("orders")

    def reassigned(name: str, index: int, replicas: list[int] | None) -> tuple[int, bool]:
        partitions = [{"partition_index": index, "replicas": replicas}]
        response = stack.ask(REASSIGN, 0, topics=[{"name": name, "partitions": partitions}])
        ((answer,),) = (topic.partitions for topic in response.responses)
        return answer.error_code, answer.error_message is None

    assert reassigned("orders", 0, [1]) == (ErrorCode.NONE, True)
    assert reassigned("orders", 0, [2]) == (ErrorCode.INVALID_REPLICA_ASSIGNMENT, False)
    assert reassigned("orders", 0, []) == (ErrorCode.INVALID_REPLICA_ASSIGNMENT, False)
    assert reassigned("orders", 0, None) == (ErrorCode.NO_REASSIGNMENT_IN_PROGRESS, False)
    assert reassigned("orders", 1, [1]) == (UNKNOWN, False)
    assert reassigned("nope", 0, [1]) == (UNKNOWN, False)
    assert stack.ask(REASSIGNMENTS, 0, topics=None).topics == []


# Folders


def sizes(result: Any) -> dict[tuple[str, int], int]:
    return {
        (topic.name, each.partition_index): each.partition_size for topic in result.topics for each in topic.partitions
    }


@pytest.mark.parametrize("version", [1, 4])
def test_the_data_folder_tells_the_size_of_every_topic_but_not_of_the_metadata_log(stack: Stack, version: int) -> None:
    stack.create("orders", 2)
    stack.write("orders", 3)
    (result,) = stack.ask(LOG_DIRS, version, topics=None).results
    assert (result.error_code, result.log_dir) == (ErrorCode.NONE, str(stack.data))
    assert sizes(result) == {("orders", 0): (stack.data / "orders-0" / f"{0:020}.log").stat().st_size, ("orders", 1): 0}
    assert (result.usable_bytes > 0) is (version >= 4)


def test_only_those_asked_for_are_told_each_once(stack: Stack) -> None:
    stack.create("orders", 2)
    wanted = [{"topic": "orders", "partitions": [1, 1, 9]}, {"topic": "nope", "partitions": [0]}]
    (result,) = stack.ask(LOG_DIRS, 4, topics=wanted).results
    assert list(sizes(result)) == [("orders", 1)]


def test_a_relative_folder_is_told_as_an_absolute_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    with Stack(Path("here")) as stack:
        (result,) = stack.ask(LOG_DIRS, 4, topics=None).results
    assert result.log_dir == str(tmp_path / "here")


@pytest.mark.parametrize("version", [1, 2])
def test_a_copy_may_move_to_the_folder_it_is_in(stack: Stack, version: int) -> None:
    stack.create("orders")
    wanted = [
        {"path": f"{stack.data}/", "topics": [{"name": "orders", "partitions": [0, 7]}]},
        {"path": "/elsewhere", "topics": [{"name": "stock", "partitions": [0]}]},
    ]
    results = stack.ask(MOVE, version, dirs=wanted).results
    told = {(topic.topic_name, each.partition_index): each.error_code for topic in results for each in topic.partitions}
    assert told == {("orders", 0): ErrorCode.NONE, ("orders", 7): UNKNOWN, ("stock", 0): ErrorCode.LOG_DIR_NOT_FOUND}
