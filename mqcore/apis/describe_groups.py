"""DescribeGroups: the state and the members of groups.

Versions: 3 adds authorized operations, 4 the members' group.instance.id; 6 answers GROUP_ID_NOT_FOUND for an unknown
group, which was "Dead" before (KIP-1043).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from mqcore.apis.call import LATER, Api, Call, Later, Response
from mqcore.apis.operations import ALL_GROUP_OPERATIONS, NOT_REQUESTED
from mqcore.groups.commands import Describe, Description, Phase
from mqcore.wire.errors import ErrorCode

if TYPE_CHECKING:
    from mqcore.wire.requests.describe_groups import DescribeGroupsRequest

API = Api(15, "DescribeGroups", 0, 6)

GROUP_ID_NOT_FOUND = 6


def handle(request: DescribeGroupsRequest, call: Call) -> Later:
    group_ids = list(dict.fromkeys(request.groups))

    def answered(answers: list[Description | ErrorCode]) -> None:
        groups = [
            _group(group_id, answer, call.version, include_operations=request.include_authorized_operations)
            for group_id, answer in zip(group_ids, answers, strict=True)
        ]
        call.answer({"groups": groups})

    call.services.groups.submit_all([(group_id, Describe()) for group_id in group_ids], answered)
    return LATER


def _group(group_id: str, answer: Description | ErrorCode, version: int, *, include_operations: bool) -> Response:
    if isinstance(answer, ErrorCode):
        return {"group_id": group_id, "error_code": answer}
    response: dict[str, Any] = {
        "group_id": group_id,
        "group_state": answer.phase.value,
        "protocol_type": answer.protocol_type,
        "protocol_data": answer.protocol,
        "members": _members(answer),
        "authorized_operations": ALL_GROUP_OPERATIONS if include_operations else NOT_REQUESTED,
    }
    if answer.phase is Phase.DEAD and version >= GROUP_ID_NOT_FOUND:
        response |= {"error_code": ErrorCode.GROUP_ID_NOT_FOUND, "error_message": f"Group {group_id} not found."}
    return response


def _members(answer: Description) -> list[Response]:
    """Like Kafka, show subscriptions only while the group is stable, but always the last assignment."""
    is_stable = answer.phase is Phase.STABLE
    return [
        {
            "member_id": member.member_id,
            "group_instance_id": member.instance_id,
            "client_id": member.client_id,
            "client_host": member.client_host,
            "member_metadata": member.subscription(answer.protocol) if is_stable else b"",
            "member_assignment": member.assignment,
        }
        for member in answer.members
    ]
