"""DescribeGroups, ListGroups, DeleteGroups and FindCoordinator, in every version."""

from __future__ import annotations

from typing import Any

import pytest

from mqcore.apis import (
    delete_groups,
    describe_groups,
    find_coordinator,
    list_groups,
)
from mqcore.wire.errors import ErrorCode
from tests.unit.mqcore.apis.group_broker import GroupBroker
from tests.unit.mqcore.apis.group_requests import commit, every_version, resign, settled
from tests.unit.mqcore.groups.group_driver import subscription


@every_version(describe_groups)
def test_groups_are_described(version: int) -> None:
    broker = GroupBroker()
    member_id = settled(broker)
    commit(broker, 9, ("orders", 0))
    shop, notebook, ghost = broker.request(describe_groups, version, groups=["shop", "notebook", "ghost"]).groups
    assert (shop.group_state, shop.protocol_type, shop.protocol_data) == ("Stable", "consumer", "range")
    member = shop.members[0]
    assert (member.member_id, member.client_id, member.client_host) == (member_id, "client", "/10.0.0.1")
    assert (member.member_metadata, member.member_assignment) == (subscription("orders"), b"all")
    assert (notebook.group_state, notebook.protocol_type, notebook.members) == ("Empty", "", [])
    assert ghost.group_state == "Dead"
    assert ghost.error_code == (ErrorCode.GROUP_ID_NOT_FOUND if version >= 6 else ErrorCode.NONE)
    assert ghost.error_message == ("Group ghost not found." if version >= 6 else None)
    resign(broker)
    answer = broker.request(describe_groups, version, groups=["shop"])
    assert answer.groups[0].error_code == ErrorCode.NOT_COORDINATOR


def test_authorized_operations_of_a_group_are_included_on_request() -> None:
    broker = GroupBroker()
    settled(broker)
    groups = {"groups": ["shop"]}
    assert broker.request(describe_groups, 3, **groups).groups[0].authorized_operations == -(1 << 31)
    told = (
        broker.request(describe_groups, 3, include_authorized_operations=True, **groups).groups[0].authorized_operations
    )
    assert told == 1 << 3 | 1 << 6 | 1 << 8 | 1 << 10 | 1 << 11


@every_version(list_groups)
def test_groups_are_listed(version: int) -> None:
    broker = GroupBroker()
    settled(broker)
    commit(broker, 9, ("orders", 0))
    listed = {group.group_id: group for group in broker.request(list_groups, version).groups}
    assert listed.keys() == {"shop", "notebook"}
    assert listed["shop"].protocol_type == "consumer"
    assert listed["shop"].group_state == ("Stable" if version >= 4 else "")
    assert listed["shop"].group_type == ("classic" if version >= 5 else "")


@pytest.mark.parametrize(
    ("filters", "expected"),
    [
        ({"states_filter": ["Stable"]}, {"shop"}),
        ({"states_filter": ["stable", "EMPTY"]}, {"shop", "notebook"}),
        ({"states_filter": ["Dead"]}, set()),
        ({"types_filter": ["Classic"]}, {"shop", "notebook"}),
        ({"types_filter": ["consumer", "share"]}, set()),
        ({"states_filter": ["Empty"], "types_filter": ["classic"]}, {"notebook"}),
    ],
)
def test_groups_are_listed_by_state_and_type(filters: dict[str, list[str]], expected: set[str]) -> None:
    broker = GroupBroker()
    settled(broker)
    commit(broker, 9, ("orders", 0))
    assert {group.group_id for group in broker.request(list_groups, 5, **filters).groups} == expected


@every_version(delete_groups)
def test_groups_are_deleted_unless_they_have_members(version: int) -> None:
    broker = GroupBroker()
    settled(broker)
    commit(broker, 9, ("orders", 0))
    answer = broker.request(delete_groups, version, groups_names=["shop", "notebook", "ghost", "notebook"])
    assert [(result.group_id, result.error_code) for result in answer.results] == [
        ("shop", ErrorCode.NON_EMPTY_GROUP),
        ("notebook", ErrorCode.NONE),
        ("ghost", ErrorCode.GROUP_ID_NOT_FOUND),
    ]


def find(broker: GroupBroker, version: int, key: str = "shop", **more: Any) -> Any:
    if version >= 4:
        return broker.request(find_coordinator, version, coordinator_keys=[key], **more).coordinators[0]
    return broker.request(find_coordinator, version, key=key, **more)


@every_version(find_coordinator)
def test_the_coordinator_is_found_at_the_address_of_the_clients_listener(version: int) -> None:
    broker = GroupBroker()
    for listener, address in (("INSIDE", ("broker", 9092)), ("OUTSIDE", ("localhost", 19092))):
        broker.listener = listener
        found = find(broker, version)
        assert (found.error_code, found.node_id, (found.host, found.port)) == (ErrorCode.NONE, 1, address)


@every_version(find_coordinator)
def test_without_the_offsets_topic_no_coordinator_is_available(version: int) -> None:
    broker = GroupBroker()
    broker.offsets_topic_error = ErrorCode.COORDINATOR_NOT_AVAILABLE
    found = find(broker, version)
    assert (found.error_code, found.node_id, found.host, found.port) == (
        ErrorCode.COORDINATOR_NOT_AVAILABLE, -1, "", -1,
    )  # fmt: skip


def test_a_listener_without_address_has_no_coordinator() -> None:
    broker = GroupBroker()
    broker.listener = "NOWHERE"
    assert find(broker, 6).error_code == ErrorCode.COORDINATOR_NOT_AVAILABLE


def test_several_coordinators_are_found_at_once() -> None:
    answer = GroupBroker().request(find_coordinator, 4, coordinator_keys=["a", "b", ""])
    assert [found.key for found in answer.coordinators] == ["a", "b", ""]


@pytest.mark.parametrize("version", range(1, 7))
def test_a_transactional_id_finds_a_broker_and_other_key_types_are_refused(version: int) -> None:
    broker = GroupBroker()
    found = find(broker, version, key_type=1)
    assert (found.error_code, found.node_id, found.host) == (ErrorCode.NONE, 1, "broker")
    assert find(broker, version, key_type=2).error_code == ErrorCode.INVALID_REQUEST
    assert "__consumer_offsets" not in broker.image.topics
