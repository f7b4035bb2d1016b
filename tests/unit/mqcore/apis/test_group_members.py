"""JoinGroup, SyncGroup, Heartbeat and LeaveGroup, in every version."""

from __future__ import annotations

from typing import Any

import pytest

from mqcore.apis import (
    describe_groups,
    heartbeat,
    join_group,
    leave_group,
    sync_group,
)
from mqcore.wire.errors import ErrorCode
from tests.unit.mqcore.apis.group_broker import GroupBroker, GroupCall
from tests.unit.mqcore.apis.group_requests import every_version, join_fields, joined, resign, settled
from tests.unit.mqcore.groups.group_driver import subscription


@every_version(join_group)
def test_a_member_joins_in_every_version(version: int) -> None:
    answer = joined(GroupBroker(), version)
    assert (answer.generation_id, answer.protocol_name) == (1, "range")
    assert answer.leader == answer.member_id
    assert [(member.member_id, member.metadata) for member in answer.members] == [
        (answer.member_id, subscription("orders"))
    ]
    assert answer.protocol_type == ("consumer" if version >= 7 else None)


@every_version(join_group)
def test_from_version_4_a_client_must_join_again_with_its_member_id(version: int) -> None:
    answer = GroupBroker().request(join_group, version, **join_fields())
    assert (answer.error_code == ErrorCode.MEMBER_ID_REQUIRED) == (version >= 4)
    assert answer.member_id.startswith("client-")


@every_version(join_group)
def test_a_refused_join_has_an_error_in_every_version(version: int) -> None:
    broker = GroupBroker()
    assert broker.request(join_group, version, **join_fields("stranger")).error_code == ErrorCode.UNKNOWN_MEMBER_ID
    fields = join_fields() | {"group_id": ""}
    assert broker.request(join_group, version, **fields).error_code == ErrorCode.INVALID_GROUP_ID
    resign(broker)
    answer = broker.request(join_group, version, **join_fields("m"))
    assert (answer.error_code, answer.member_id, answer.generation_id) == (ErrorCode.NOT_COORDINATOR, "m", -1)


def test_the_member_id_of_a_static_member_begins_with_its_instance_id() -> None:
    answer = joined(GroupBroker(), 5, group_instance_id="till-1")
    assert answer.member_id.startswith("till-1-")
    assert answer.members[0].group_instance_id == "till-1"


def test_without_a_rebalance_timeout_the_session_timeout_applies() -> None:
    broker = GroupBroker()
    first = joined(broker, 0)
    broker.request(sync_group, 0, group_id="shop", generation_id=1, member_id=first.member_id)
    waiting = broker.send(join_group, 0, **join_fields())
    broker.driver.clock.advance(9_999)
    broker.request(heartbeat, 0, group_id="shop", generation_id=1, member_id=first.member_id)
    assert not waiting.answers
    broker.driver.clock.advance(1)
    assert waiting.response.generation_id == 2


@every_version(sync_group)
def test_a_member_gets_its_assignment(version: int) -> None:
    broker = GroupBroker()
    member_id = settled(broker)
    names = {"protocol_type": "consumer", "protocol_name": "range"} if version >= 5 else {}
    answer = broker.request(sync_group, version, group_id="shop", generation_id=1, member_id=member_id, **names)
    assert (answer.error_code, answer.assignment) == (ErrorCode.NONE, b"all")
    assert answer.protocol_name == ("range" if version >= 5 else None)


@every_version(sync_group)
def test_a_refused_sync_has_an_error_in_every_version(version: int) -> None:
    broker = GroupBroker()
    names = {"protocol_type": "consumer", "protocol_name": "range"} if version >= 5 else {}
    fields = {"generation_id": 1, "member_id": "m", **names}
    assert broker.request(sync_group, version, group_id="shop", **fields).error_code == ErrorCode.UNKNOWN_MEMBER_ID
    assert broker.request(sync_group, version, group_id="", **fields).error_code == ErrorCode.INVALID_GROUP_ID
    resign(broker)
    assert broker.request(sync_group, version, group_id="shop", **fields).error_code == ErrorCode.NOT_COORDINATOR


def test_from_version_5_a_sync_must_name_its_protocol() -> None:
    broker = GroupBroker()
    member_id = settled(broker)
    answer = broker.request(sync_group, 5, group_id="shop", generation_id=1, member_id=member_id)
    assert answer.error_code == ErrorCode.INCONSISTENT_GROUP_PROTOCOL


@every_version(heartbeat)
def test_a_heartbeat_is_answered(version: int) -> None:
    broker = GroupBroker()
    member_id = settled(broker)

    def error(**fields: Any) -> int:
        code: int = broker.request(
            heartbeat, version, **{"group_id": "shop", "generation_id": 1, "member_id": member_id} | fields
        ).error_code
        return code

    assert error() == ErrorCode.NONE
    assert error(generation_id=2) == ErrorCode.ILLEGAL_GENERATION
    assert error(group_id="") == ErrorCode.INVALID_GROUP_ID
    assert error(group_id="ghost") == ErrorCode.UNKNOWN_MEMBER_ID
    resign(broker)
    assert error() == ErrorCode.NOT_COORDINATOR


@every_version(leave_group)
def test_a_member_leaves(version: int) -> None:
    broker = GroupBroker()
    member_id = settled(broker)

    def leave(member: str) -> int:
        fields = {"members": [{"member_id": member}]} if version >= 3 else {"member_id": member}
        answer = broker.request(leave_group, version, group_id="shop", **fields)
        if version < 3 or not answer.members:
            code: int = answer.error_code
        else:
            assert answer.error_code == ErrorCode.NONE
            code = answer.members[0].error_code
        return code

    assert leave("stranger") == ErrorCode.UNKNOWN_MEMBER_ID
    assert leave(member_id) == ErrorCode.NONE
    assert leave(member_id) == ErrorCode.UNKNOWN_MEMBER_ID
    resign(broker)
    assert leave(member_id) == ErrorCode.NOT_COORDINATOR
    assert broker.request(leave_group, version, group_id="").error_code == ErrorCode.INVALID_GROUP_ID


def test_a_long_client_id_is_truncated(monkeypatch: pytest.MonkeyPatch) -> None:
    """A client id may have the maximum length of a string, and every record of the group contains it."""
    monkeypatch.setattr(GroupCall, "client_id", property(lambda call: "x" * 32_000, lambda call, value: None), False)
    broker = GroupBroker()
    settled(broker)
    (shop,) = broker.request(describe_groups, 5, groups=["shop"]).groups
    assert [member.client_id for member in shop.members] == ["x" * 255]
    assert all(len(member.member_id) < 255 for member in shop.members)
