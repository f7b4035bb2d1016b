"""The requests of consumer groups, in every version that is advertised."""

from __future__ import annotations

from types import ModuleType
from typing import Any
from uuid import UUID

import pytest

from mqcore.apis import (
    delete_groups,
    describe_groups,
    find_coordinator,
    heartbeat,
    join_group,
    leave_group,
    list_groups,
    offset_commit,
    offset_delete,
    offset_fetch,
    sync_group,
)
from mqcore.wire.errors import ErrorCode
from tests.unit.mqcore.apis.group_desk import ORDERS, PAYMENTS, Desk, DeskCall, versions_of
from tests.unit.mqcore.groups.cast import subscription

UNKNOWN = UUID(int=99)
NOT_COORDINATED = {0, 1, 2, 3}


def every_version(module: ModuleType) -> pytest.MarkDecorator:
    return pytest.mark.parametrize("version", versions_of(module))


def join_fields(member_id: str = "", **more: Any) -> dict[str, Any]:
    return {
        "group_id": "shop",
        "session_timeout_ms": 10_000,
        "rebalance_timeout_ms": 60_000,
        "member_id": member_id,
        "protocol_type": "consumer",
        "protocols": [{"name": "range", "metadata": subscription("orders")}],
        **more,
    }


def joined(desk: Desk, version: int = 9, **more: Any) -> Any:
    """What a client does that follows the protocol of its version."""
    answer = desk.ask(join_group, version, **join_fields(**more))
    if answer.error_code == ErrorCode.MEMBER_ID_REQUIRED:
        answer = desk.ask(join_group, version, **join_fields(answer.member_id, **more))
    assert answer.error_code == ErrorCode.NONE
    return answer


def settled(desk: Desk) -> str:
    answer = joined(desk)
    synced = desk.ask(
        sync_group,
        0,
        group_id="shop",
        generation_id=answer.generation_id,
        member_id=answer.member_id,
        assignments=[{"member_id": answer.member_id, "assignment": b"all"}],
    )
    assert synced.error_code == ErrorCode.NONE
    member_id: str = answer.member_id
    return member_id


def resign(desk: Desk) -> None:
    for index in NOT_COORDINATED:
        desk.groups.resign(index)


# ── JoinGroup, SyncGroup, Heartbeat, LeaveGroup ──────────────────────────────────────────────────────


@every_version(join_group)
def test_a_member_joins(version: int) -> None:
    answer = joined(Desk(), version)
    assert (answer.generation_id, answer.protocol_name) == (1, "range")
    assert answer.leader == answer.member_id
    assert [(member.member_id, member.metadata) for member in answer.members] == [
        (answer.member_id, subscription("orders"))
    ]
    assert answer.protocol_type == ("consumer" if version >= 7 else None)


@every_version(join_group)
def test_from_version_4_a_client_gets_its_id_first(version: int) -> None:
    answer = Desk().ask(join_group, version, **join_fields())
    assert (answer.error_code == ErrorCode.MEMBER_ID_REQUIRED) == (version >= 4)
    assert answer.member_id.startswith("client-")


@every_version(join_group)
def test_a_refused_join_says_so_in_every_version(version: int) -> None:
    desk = Desk()
    assert desk.ask(join_group, version, **join_fields("stranger")).error_code == ErrorCode.UNKNOWN_MEMBER_ID
    fields = join_fields() | {"group_id": ""}
    assert desk.ask(join_group, version, **fields).error_code == ErrorCode.INVALID_GROUP_ID
    resign(desk)
    answer = desk.ask(join_group, version, **join_fields("m"))
    assert (answer.error_code, answer.member_id, answer.generation_id) == (ErrorCode.NOT_COORDINATOR, "m", -1)


def test_a_static_member_is_named_after_its_instance() -> None:
    answer = joined(Desk(), 5, group_instance_id="till-1")
    assert answer.member_id.startswith("till-1-")
    assert answer.members[0].group_instance_id == "till-1"


def test_a_join_without_rebalance_timeout_has_its_session_for_it() -> None:
    desk = Desk()
    first = joined(desk, 0)
    desk.ask(sync_group, 0, group_id="shop", generation_id=1, member_id=first.member_id)
    waiting = desk.send(join_group, 0, **join_fields())
    desk.office.clock.advance(9_999)
    desk.ask(heartbeat, 0, group_id="shop", generation_id=1, member_id=first.member_id)
    assert not waiting.responses
    desk.office.clock.advance(1)
    assert waiting.response.generation_id == 2


@every_version(sync_group)
def test_a_member_gets_its_assignment(version: int) -> None:
    desk = Desk()
    member_id = settled(desk)
    names = {"protocol_type": "consumer", "protocol_name": "range"} if version >= 5 else {}
    answer = desk.ask(sync_group, version, group_id="shop", generation_id=1, member_id=member_id, **names)
    assert (answer.error_code, answer.assignment) == (ErrorCode.NONE, b"all")
    assert answer.protocol_name == ("range" if version >= 5 else None)


@every_version(sync_group)
def test_a_refused_sync_says_so_in_every_version(version: int) -> None:
    desk = Desk()
    names = {"protocol_type": "consumer", "protocol_name": "range"} if version >= 5 else {}
    fields = {"generation_id": 1, "member_id": "m", **names}
    assert desk.ask(sync_group, version, group_id="shop", **fields).error_code == ErrorCode.UNKNOWN_MEMBER_ID
    assert desk.ask(sync_group, version, group_id="", **fields).error_code == ErrorCode.INVALID_GROUP_ID
    resign(desk)
    assert desk.ask(sync_group, version, group_id="shop", **fields).error_code == ErrorCode.NOT_COORDINATOR


def test_from_version_5_a_sync_names_its_protocol() -> None:
    desk = Desk()
    member_id = settled(desk)
    answer = desk.ask(sync_group, 5, group_id="shop", generation_id=1, member_id=member_id)
    assert answer.error_code == ErrorCode.INCONSISTENT_GROUP_PROTOCOL


@every_version(heartbeat)
def test_a_heartbeat_is_answered(version: int) -> None:
    desk = Desk()
    member_id = settled(desk)

    def error(**fields: Any) -> int:
        code: int = desk.ask(
            heartbeat, version, **{"group_id": "shop", "generation_id": 1, "member_id": member_id} | fields
        ).error_code
        return code

    assert error() == ErrorCode.NONE
    assert error(generation_id=2) == ErrorCode.ILLEGAL_GENERATION
    assert error(group_id="") == ErrorCode.INVALID_GROUP_ID
    assert error(group_id="ghost") == ErrorCode.UNKNOWN_MEMBER_ID
    resign(desk)
    assert error() == ErrorCode.NOT_COORDINATOR


@every_version(leave_group)
def test_a_member_leaves(version: int) -> None:
    desk = Desk()
    member_id = settled(desk)

    def leave(member: str) -> int:
        fields = {"members": [{"member_id": member}]} if version >= 3 else {"member_id": member}
        answer = desk.ask(leave_group, version, group_id="shop", **fields)
        if version < 3 or not answer.members:
            code: int = answer.error_code
        else:
            assert answer.error_code == ErrorCode.NONE
            code = answer.members[0].error_code
        return code

    assert leave("stranger") == ErrorCode.UNKNOWN_MEMBER_ID
    assert leave(member_id) == ErrorCode.NONE
    assert leave(member_id) == ErrorCode.UNKNOWN_MEMBER_ID
    resign(desk)
    assert leave(member_id) == ErrorCode.NOT_COORDINATOR
    assert desk.ask(leave_group, version, group_id="").error_code == ErrorCode.INVALID_GROUP_ID


# ── offsets ──────────────────────────────────────────────────────────────────────────────────────────


def commit(
    desk: Desk, version: int, *places: tuple[str, int], offset: int = 42, **more: Any
) -> dict[tuple[str, int], int]:
    ids = {"orders": ORDERS, "payments": PAYMENTS}
    topics = [
        {
            **({"topic_id": ids.get(name, UNKNOWN)} if version >= 10 else {"name": name}),
            "partitions": [{"partition_index": index, "committed_offset": offset, "committed_metadata": "note"}],
        }
        for name, index in places
    ]
    answer = desk.ask(offset_commit, version, **{"group_id": "notebook", "topics": topics} | more)
    return {place: topic.partitions[0].error_code for place, topic in zip(places, answer.topics, strict=True)}


@every_version(offset_commit)
def test_only_partitions_that_exist_are_committed(version: int) -> None:
    desk = Desk()
    errors = commit(desk, version, ("orders", 2), ("orders", 3), ("nothing", 0), ("payments", 0))
    assert errors == {
        ("orders", 2): ErrorCode.NONE,
        ("orders", 3): ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        ("nothing", 0): ErrorCode.UNKNOWN_TOPIC_ID if version >= 10 else ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        ("payments", 0): ErrorCode.NONE,
    }
    assert desk.office.committed("notebook", "payments") == 42


@every_version(offset_commit)
def test_an_error_of_the_group_is_the_error_of_each_partition(version: int) -> None:
    desk = Desk()
    fields: dict[str, Any] = {"generation_id_or_member_epoch": 3, "member_id": "m"}
    errors = commit(desk, version, ("orders", 0), ("nothing", 0), **fields)
    no_group = ErrorCode.GROUP_ID_NOT_FOUND if version >= 9 else ErrorCode.ILLEGAL_GENERATION
    assert errors["orders", 0] == no_group
    assert errors["nothing", 0] != no_group
    resign(desk)
    assert set(commit(desk, version, ("orders", 0), ("payments", 0)).values()) == {ErrorCode.NOT_COORDINATOR}


def test_a_commit_of_nothing_is_fine() -> None:
    assert commit(Desk(), 9) == {}


def fetch(desk: Desk, version: int, topics: list[tuple[str, list[int]]] | None, group_id: str = "notebook") -> Any:
    """The answer for one group, whatever shape the version gives it."""
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
        return desk.ask(offset_fetch, version, group_id=group_id, topics=wanted)
    return desk.ask(offset_fetch, version, groups=[{"group_id": group_id, "topics": wanted}]).groups[0]


@every_version(offset_fetch)
def test_what_was_committed_is_fetched(version: int) -> None:
    desk = Desk()
    commit(desk, 9, ("orders", 1))
    answer = fetch(desk, version, [("orders", [0, 1]), ("payments", [0])])
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
def test_what_is_asked_for_many_times_is_told_once(version: int) -> None:
    """Or a request of 360 KB, naming one partition over and over, would have an answer a thousand times its size."""
    desk = Desk()
    commit(desk, 9, ("orders", 1))
    answer = fetch(desk, version, [("orders", [1] * 50)] * 20)
    assert [len(topic.partitions) for topic in answer.topics] == [1]
    assert len(desk.ask(describe_groups, 5, groups=["notebook"] * 30).groups) == 1


@pytest.mark.parametrize("version", range(2, 11))
def test_all_offsets_are_fetched_when_no_topics_are_named(version: int) -> None:
    desk = Desk()
    commit(desk, 9, ("payments", 0), ("orders", 1))
    answer = fetch(desk, version, None)
    assert [len(topic.partitions) for topic in answer.topics] == [1, 1]
    assert fetch(desk, version, None, "ghost").topics == []


@every_version(offset_fetch)
def test_a_topic_that_is_unknown_has_no_offsets_but_an_unknown_id_is_an_error(version: int) -> None:
    partition = fetch(Desk(), version, [("nothing", [0])]).topics[0].partitions[0]
    assert partition.committed_offset == -1
    assert partition.error_code == (ErrorCode.UNKNOWN_TOPIC_ID if version >= 10 else ErrorCode.NONE)


@every_version(offset_fetch)
def test_an_error_of_the_group_is_told_where_the_version_has_room_for_it(version: int) -> None:
    desk = Desk()
    resign(desk)
    answer = fetch(desk, version, [("orders", [0])])
    error = answer.error_code if version >= 2 else answer.topics[0].partitions[0].error_code
    assert error == ErrorCode.NOT_COORDINATOR


@pytest.mark.parametrize("version", [8, 9, 10])
def test_several_groups_are_fetched_at_once(version: int) -> None:
    desk = Desk()
    commit(desk, 9, ("orders", 0))
    groups = [{"group_id": name, "topics": None} for name in ("ghost", "notebook")]
    answer = desk.ask(offset_fetch, version, groups=groups, require_stable=True)
    assert [(group.group_id, len(group.topics), group.error_code) for group in answer.groups] == [
        ("ghost", 0, 0),
        ("notebook", 1, 0),
    ]


def test_offsets_of_a_topic_that_has_no_id_any_more_are_left_out_of_version_10() -> None:
    desk = Desk()
    commit(desk, 9, ("orders", 0))
    del desk.image.topics["orders"]
    assert fetch(desk, 10, None).topics == []
    assert len(fetch(desk, 9, None).topics) == 1


def test_offsets_are_deleted_one_by_one() -> None:
    desk = Desk()
    commit(desk, 9, ("orders", 0))
    topics = [
        {"name": "orders", "partitions": [{"partition_index": 0}, {"partition_index": 9}]},
        {"name": "nothing", "partitions": [{"partition_index": 0}]},
    ]
    answer = desk.ask(offset_delete, 0, group_id="notebook", topics=topics)
    assert [[partition.error_code for partition in topic.partitions] for topic in answer.topics] == [
        [ErrorCode.NONE, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION],
        [ErrorCode.UNKNOWN_TOPIC_OR_PARTITION],
    ]
    assert desk.office.committed("notebook") is None


def test_offsets_that_are_in_use_or_of_no_group_are_not_deleted() -> None:
    desk = Desk()
    settled(desk)
    topics = [{"name": name, "partitions": [{"partition_index": 0}]} for name in ("orders", "payments")]
    answer = desk.ask(offset_delete, 0, group_id="shop", topics=topics)
    assert [topic.partitions[0].error_code for topic in answer.topics] == [
        ErrorCode.GROUP_SUBSCRIBED_TO_TOPIC,
        ErrorCode.NONE,
    ]
    assert desk.ask(offset_delete, 0, group_id="ghost", topics=topics).error_code == ErrorCode.GROUP_ID_NOT_FOUND
    assert desk.ask(offset_delete, 0, group_id="", topics=topics).error_code == ErrorCode.INVALID_GROUP_ID
    resign(desk)
    assert desk.ask(offset_delete, 0, group_id="shop", topics=topics).error_code == ErrorCode.NOT_COORDINATOR


# ── groups from outside ──────────────────────────────────────────────────────────────────────────────


@every_version(describe_groups)
def test_groups_are_described(version: int) -> None:
    desk = Desk()
    member_id = settled(desk)
    commit(desk, 9, ("orders", 0))
    shop, notebook, ghost = desk.ask(describe_groups, version, groups=["shop", "notebook", "ghost"]).groups
    assert (shop.group_state, shop.protocol_type, shop.protocol_data) == ("Stable", "consumer", "range")
    member = shop.members[0]
    assert (member.member_id, member.client_id, member.client_host) == (member_id, "client", "/10.0.0.1")
    assert (member.member_metadata, member.member_assignment) == (subscription("orders"), b"all")
    assert (notebook.group_state, notebook.protocol_type, notebook.members) == ("Empty", "", [])
    assert ghost.group_state == "Dead"
    assert ghost.error_code == (ErrorCode.GROUP_ID_NOT_FOUND if version >= 6 else ErrorCode.NONE)
    assert ghost.error_message == ("Group ghost not found." if version >= 6 else None)
    resign(desk)
    answer = desk.ask(describe_groups, version, groups=["shop"])
    assert answer.groups[0].error_code == ErrorCode.NOT_COORDINATOR


def test_what_a_client_may_do_with_a_group_is_told_if_it_asks() -> None:
    desk = Desk()
    settled(desk)
    groups = {"groups": ["shop"]}
    assert desk.ask(describe_groups, 3, **groups).groups[0].authorized_operations == -(1 << 31)
    told = desk.ask(describe_groups, 3, include_authorized_operations=True, **groups).groups[0].authorized_operations
    assert told == 1 << 3 | 1 << 6 | 1 << 8 | 1 << 10 | 1 << 11


@every_version(list_groups)
def test_groups_are_listed(version: int) -> None:
    desk = Desk()
    settled(desk)
    commit(desk, 9, ("orders", 0))
    listed = {group.group_id: group for group in desk.ask(list_groups, version).groups}
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
    desk = Desk()
    settled(desk)
    commit(desk, 9, ("orders", 0))
    assert {group.group_id for group in desk.ask(list_groups, 5, **filters).groups} == expected


@every_version(delete_groups)
def test_groups_are_deleted_unless_somebody_is_in_them(version: int) -> None:
    desk = Desk()
    settled(desk)
    commit(desk, 9, ("orders", 0))
    answer = desk.ask(delete_groups, version, groups_names=["shop", "notebook", "ghost", "notebook"])
    assert [(result.group_id, result.error_code) for result in answer.results] == [
        ("shop", ErrorCode.NON_EMPTY_GROUP),
        ("notebook", ErrorCode.NONE),
        ("ghost", ErrorCode.GROUP_ID_NOT_FOUND),
    ]


# ── FindCoordinator ──────────────────────────────────────────────────────────────────────────────────


def find(desk: Desk, version: int, key: str = "shop", **more: Any) -> Any:
    if version >= 4:
        return desk.ask(find_coordinator, version, coordinator_keys=[key], **more).coordinators[0]
    return desk.ask(find_coordinator, version, key=key, **more)


@every_version(find_coordinator)
def test_the_coordinator_is_found_at_the_address_of_the_listener_that_was_asked(version: int) -> None:
    desk = Desk()
    for listener, address in (("INSIDE", ("broker", 9092)), ("OUTSIDE", ("localhost", 19092))):
        desk.listener = listener
        found = find(desk, version)
        assert (found.error_code, found.node_id, (found.host, found.port)) == (ErrorCode.NONE, 1, address)


@every_version(find_coordinator)
def test_without_offsets_topic_there_is_no_coordinator_yet(version: int) -> None:
    desk = Desk()
    desk.offsets_topic_error = ErrorCode.COORDINATOR_NOT_AVAILABLE
    found = find(desk, version)
    assert (found.error_code, found.node_id, found.host, found.port) == (
        ErrorCode.COORDINATOR_NOT_AVAILABLE, -1, "", -1,
    )  # fmt: skip


def test_a_listener_without_address_has_no_coordinator() -> None:
    desk = Desk()
    desk.listener = "NOWHERE"
    assert find(desk, 6).error_code == ErrorCode.COORDINATOR_NOT_AVAILABLE


def test_several_coordinators_are_found_at_once() -> None:
    answer = Desk().ask(find_coordinator, 4, coordinator_keys=["a", "b", ""])
    assert [found.key for found in answer.coordinators] == ["a", "b", ""]


@pytest.mark.parametrize("version", range(1, 7))
def test_a_transaction_finds_a_broker_that_will_refuse_it_and_other_kinds_find_none(version: int) -> None:
    desk = Desk()
    found = find(desk, version, key_type=1)
    assert (found.error_code, found.node_id, found.host) == (ErrorCode.NONE, 1, "broker")
    assert find(desk, version, key_type=2).error_code == ErrorCode.INVALID_REQUEST
    assert "__consumer_offsets" not in desk.image.topics


@pytest.mark.parametrize("version", [2, 3, 4])
def test_a_retention_beyond_the_end_of_time_is_refused_and_leaves_no_group(version: int) -> None:
    desk = Desk()
    topics = [{"name": "orders", "partitions": [{"partition_index": 0, "committed_offset": 1}]}]
    fields = {"group_id": "shop", "generation_id_or_member_epoch": -1, "member_id": "", "topics": topics}

    def error(retention_ms: int) -> int:
        answer = desk.ask(offset_commit, version, **fields, retention_time_ms=retention_ms)
        return int(answer.topics[0].partitions[0].error_code)

    latest = (1 << 63) - 1
    for retention_ms in (latest, latest - desk.office.clock.wall_ms() + 1):
        assert error(retention_ms) == ErrorCode.INVALID_REQUEST
        assert desk.groups.group_count == 0
    assert error(latest - desk.office.clock.wall_ms()) == ErrorCode.NONE
    desk.office.restart()
    assert desk.office.committed("shop") == 1


def test_a_member_keeps_the_beginning_of_a_long_client_id(monkeypatch: pytest.MonkeyPatch) -> None:
    """It may be as long as a string can be, and stands in the record of each generation."""
    monkeypatch.setattr(DeskCall, "client_id", property(lambda call: "x" * 32_000, lambda call, value: None), False)
    desk = Desk()
    settled(desk)
    (shop,) = desk.ask(describe_groups, 5, groups=["shop"]).groups
    assert [member.client_id for member in shop.members] == ["x" * 255]
    assert all(len(member.member_id) < 255 for member in shop.members)
