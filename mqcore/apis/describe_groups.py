"""DescribeGroups: state and members of groups."""

from __future__ import annotations

from typing import Any

from mqcore.apis.call import LATER, Api, Call, Later, Response
from mqcore.groups.commands import Describe, Description, Phase
from mqcore.wire.errors import ErrorCode

API = Api(15, "DescribeGroups", 0, 6)

NOT_FOUND = 6  # before, a group that is not there was "Dead" (KIP-1043)

READ, DELETE, DESCRIBE, DESCRIBE_CONFIGS, ALTER_CONFIGS = 3, 6, 8, 10, 11  # Kafka's AclOperation
EVERYTHING = 1 << READ | 1 << DELETE | 1 << DESCRIBE | 1 << DESCRIBE_CONFIGS | 1 << ALTER_CONFIGS
NOT_ASKED = -(1 << 31)


def handle(request: Any, call: Call) -> Response | Later:
    asked = list(dict.fromkeys(request.groups))

    def answered(answers: list[Description | ErrorCode]) -> None:
        groups = [
            _group(group_id, answer, call.version, include_operations=request.include_authorized_operations)
            for group_id, answer in zip(asked, answers, strict=True)
        ]
        call.answer({"groups": groups})

    call.services.groups.submit_all([(group_id, Describe()) for group_id in asked], answered)
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
        "authorized_operations": EVERYTHING if include_operations else NOT_ASKED,
    }
    if answer.phase is Phase.DEAD and version >= NOT_FOUND:
        response |= {"error_code": ErrorCode.GROUP_ID_NOT_FOUND, "error_message": f"Group {group_id} not found."}
    return response


def _members(answer: Description) -> list[Response]:
    """Subscriptions are shown while they hold; of assignments Kafka shows the last one, too."""
    stable = answer.phase is Phase.STABLE
    return [
        {
            "member_id": member.member_id,
            "group_instance_id": member.instance_id,
            "client_id": member.client_id,
            "client_host": member.client_host,
            "member_metadata": member.subscription(answer.protocol) if stable else b"",
            "member_assignment": member.assignment,
        }
        for member in answer.members
    ]
