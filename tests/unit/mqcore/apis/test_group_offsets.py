"""OffsetCommit, OffsetFetch and OffsetDelete, in every version."""

from __future__ import annotations

from typing import Any

import pytest

from mqcore.apis import (
    describe_groups,
    offset_commit,
    offset_delete,
    offset_fetch,
)
from mqcore.wire.errors import ErrorCode
from tests.unit.mqcore.apis.group_broker import ORDERS, PAYMENTS, GroupBroker
from tests.unit.mqcore.apis.group_requests import UNKNOWN, commit, every_version, resign, settled


@every_version(offset_commit)
def test_only_partitions_that_exist_are_committed(version: int) -> None:
    broker = GroupBroker()
    errors = commit(broker, version, ("orders", 2), ("orders", 3), ("nothing", 0), ("payments", 0))
    assert errors == {
        ("orders", 2): ErrorCode.NONE,
        ("orders", 3): ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        ("nothing", 0): ErrorCode.UNKNOWN_TOPIC_ID if version >= 10 else ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        ("payments", 0): ErrorCode.NONE,
    }
    assert broker.driver.committed("notebook", "payments") == 42


@every_version(offset_commit)
def test_an_error_of_the_group_is_the_error_of_each_partition(version: int) -> None:
    broker = GroupBroker()
    fields: dict[str, Any] = {"generation_id_or_member_epoch": 3, "member_id": "m"}
    errors = commit(broker, version, ("orders", 0), ("nothing", 0), **fields)
    no_group = ErrorCode.GROUP_ID_NOT_FOUND if version >= 9 else ErrorCode.ILLEGAL_GENERATION
    assert errors["orders", 0] == no_group
    assert errors["nothing", 0] != no_group
    resign(broker)
    assert set(commit(broker, version, ("orders", 0), ("payments", 0)).values()) == {ErrorCode.NOT_COORDINATOR}


def test_a_commit_without_offsets_succeeds() -> None:
    assert commit(GroupBroker(), 9) == {}


def fetch(
    broker: GroupBroker, version: int, topics: list[tuple[str, list[int]]] | None, group_id: str = "notebook"
) -> Any:
    """The answer for one group in any version."""
    ids = {"orders": ORDERS, "payments": PAYMENTS}
    wanted = (
        None
        if topics is None
        else [
            {
                **({"topic_id": ids.get(name, UNKNOWN)} if version >= 10 else {"name": name}),
                "partition_indexes": indexes,
            }
            for name, indexes in topics
        ]
    )
    if version < 8:
        return broker.request(offset_fetch, version, group_id=group_id, topics=wanted)
    return broker.request(offset_fetch, version, groups=[{"group_id": group_id, "topics": wanted}]).groups[0]


@every_version(offset_fetch)
def test_committed_offsets_are_fetched(version: int) -> None:
    broker = GroupBroker()
    commit(broker, 9, ("orders", 1))
    answer = fetch(broker, version, [("orders", [0, 1]), ("payments", [0])])
    found = [
        (partition.partition_index, partition.committed_offset, partition.metadata, partition.error_code)
        for topic in answer.topics
        for partition in topic.partitions
    ]
    assert found == [(0, -1, "", 0), (1, 42, "note", 0), (0, -1, "", 0)]
    assert [topic.topic_id if version >= 10 else topic.name for topic in answer.topics] == (
        [ORDERS, PAYMENTS] if version >= 10 else ["orders", "payments"]
    )


@every_version(offset_fetch)
def test_repeated_partitions_and_groups_are_answered_once(version: int) -> None:
    """Otherwise a request of 360 KB that repeats one partition would get a response a thousand times as large."""
    broker = GroupBroker()
    commit(broker, 9, ("orders", 1))
    answer = fetch(broker, version, [("orders", [1] * 50)] * 20)
    assert [len(topic.partitions) for topic in answer.topics] == [1]
    assert len(broker.request(describe_groups, 5, groups=["notebook"] * 30).groups) == 1


@pytest.mark.parametrize("version", range(2, 11))
def test_all_offsets_are_fetched_when_no_topics_are_named(version: int) -> None:
    broker = GroupBroker()
    commit(broker, 9, ("payments", 0), ("orders", 1))
    answer = fetch(broker, version, None)
    assert [len(topic.partitions) for topic in answer.topics] == [1, 1]
    assert fetch(broker, version, None, "ghost").topics == []


@every_version(offset_fetch)
def test_a_topic_that_is_unknown_has_no_offsets_but_an_unknown_id_is_an_error(version: int) -> None:
    partition = fetch(GroupBroker(), version, [("nothing", [0])]).topics[0].partitions[0]
    assert partition.committed_offset == -1
    assert partition.error_code == (ErrorCode.UNKNOWN_TOPIC_ID if version >= 10 else ErrorCode.NONE)


@every_version(offset_fetch)
def test_a_group_error_is_reported_per_group_or_per_partition_by_version(version: int) -> None:
    broker = GroupBroker()
    resign(broker)
    answer = fetch(broker, version, [("orders", [0])])
    error = answer.error_code if version >= 2 else answer.topics[0].partitions[0].error_code
    assert error == ErrorCode.NOT_COORDINATOR


@pytest.mark.parametrize("version", [8, 9, 10])
def test_several_groups_are_fetched_at_once(version: int) -> None:
    broker = GroupBroker()
    commit(broker, 9, ("orders", 0))
    groups = [{"group_id": name, "topics": None} for name in ("ghost", "notebook")]
    answer = broker.request(offset_fetch, version, groups=groups, require_stable=True)
    assert [(group.group_id, len(group.topics), group.error_code) for group in answer.groups] == [
        ("ghost", 0, 0),
        ("notebook", 1, 0),
    ]


def test_version_10_leaves_out_offsets_of_deleted_topics() -> None:
    broker = GroupBroker()
    commit(broker, 9, ("orders", 0))
    del broker.image.topics["orders"]
    assert fetch(broker, 10, None).topics == []
    assert len(fetch(broker, 9, None).topics) == 1


def test_offsets_are_deleted_one_by_one() -> None:
    broker = GroupBroker()
    commit(broker, 9, ("orders", 0))
    topics = [
        {"name": "orders", "partitions": [{"partition_index": 0}, {"partition_index": 9}]},
        {"name": "nothing", "partitions": [{"partition_index": 0}]},
    ]
    answer = broker.request(offset_delete, 0, group_id="notebook", topics=topics)
    assert [[partition.error_code for partition in topic.partitions] for topic in answer.topics] == [
        [ErrorCode.NONE, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION],
        [ErrorCode.UNKNOWN_TOPIC_OR_PARTITION],
    ]
    assert broker.driver.committed("notebook") is None


def test_offsets_of_a_subscribed_topic_or_of_no_group_are_not_deleted() -> None:
    broker = GroupBroker()
    settled(broker)
    topics = [{"name": name, "partitions": [{"partition_index": 0}]} for name in ("orders", "payments")]
    answer = broker.request(offset_delete, 0, group_id="shop", topics=topics)
    assert [topic.partitions[0].error_code for topic in answer.topics] == [
        ErrorCode.GROUP_SUBSCRIBED_TO_TOPIC,
        ErrorCode.NONE,
    ]
    assert broker.request(offset_delete, 0, group_id="ghost", topics=topics).error_code == ErrorCode.GROUP_ID_NOT_FOUND
    assert broker.request(offset_delete, 0, group_id="", topics=topics).error_code == ErrorCode.INVALID_GROUP_ID
    resign(broker)
    assert broker.request(offset_delete, 0, group_id="shop", topics=topics).error_code == ErrorCode.NOT_COORDINATOR


@pytest.mark.parametrize("version", [2, 3, 4])
def test_a_retention_that_overflows_is_refused_and_leaves_no_group(version: int) -> None:
    broker = GroupBroker()
    topics = [{"name": "orders", "partitions": [{"partition_index": 0, "committed_offset": 1}]}]
    fields = {"group_id": "shop", "generation_id_or_member_epoch": -1, "member_id": "", "topics": topics}

    def error(retention_ms: int) -> int:
        answer = broker.request(offset_commit, version, **fields, retention_time_ms=retention_ms)
        return int(answer.topics[0].partitions[0].error_code)

    latest = (1 << 63) - 1
    for retention_ms in (latest, latest - broker.driver.clock.wall_ms() + 1):
        assert error(retention_ms) == ErrorCode.INVALID_REQUEST
        assert broker.groups.group_count == 0
    assert error(latest - broker.driver.clock.wall_ms()) == ErrorCode.NONE
    broker.driver.restart()
    assert broker.driver.committed("shop") == 1
