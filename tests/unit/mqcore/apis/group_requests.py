"""Requests of consumer groups that several tests send."""

from __future__ import annotations

from types import ModuleType
from typing import Any
from uuid import UUID

import pytest

from mqcore.apis import (
    join_group,
    offset_commit,
    sync_group,
)
from mqcore.wire.errors import ErrorCode
from tests.unit.mqcore.apis.group_broker import ORDERS, PAYMENTS, GroupBroker, versions_of
from tests.unit.mqcore.groups.group_driver import subscription

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


def joined(broker: GroupBroker, version: int = 9, **more: Any) -> Any:
    """Join like a client that follows the protocol of its version."""
    answer = broker.request(join_group, version, **join_fields(**more))
    if answer.error_code == ErrorCode.MEMBER_ID_REQUIRED:
        answer = broker.request(join_group, version, **join_fields(answer.member_id, **more))
    assert answer.error_code == ErrorCode.NONE
    return answer


def settled(broker: GroupBroker) -> str:
    answer = joined(broker)
    synced = broker.request(
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


def resign(broker: GroupBroker) -> None:
    for index in NOT_COORDINATED:
        broker.groups.resign(index)


def commit(
    broker: GroupBroker, version: int, *places: tuple[str, int], offset: int = 42, **more: Any
) -> dict[tuple[str, int], int]:
    ids = {"orders": ORDERS, "payments": PAYMENTS}
    topics = [
        {
            **({"topic_id": ids.get(name, UNKNOWN)} if version >= 10 else {"name": name}),
            "partitions": [{"partition_index": index, "committed_offset": offset, "committed_metadata": "note"}],
        }
        for name, index in places
    ]
    answer = broker.request(offset_commit, version, **{"group_id": "notebook", "topics": topics} | more)
    return {place: topic.partitions[0].error_code for place, topic in zip(places, answer.topics, strict=True)}
