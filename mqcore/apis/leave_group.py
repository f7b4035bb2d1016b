"""LeaveGroup: remove members at once, so that the others do not wait until their sessions expire.

Versions: 3 removes several members in one request, each with its own error (KIP-345); 5 adds the reason (KIP-800),
which is ignored.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from mqcore.apis.call import LATER, Api, Call, Later, Response
from mqcore.groups.commands import Leave, LeaveAnswer
from mqcore.wire.errors import ErrorCode

if TYPE_CHECKING:
    from mqcore.wire.requests.leave_group import LeaveGroupRequest

API = Api(13, "LeaveGroup", 0, 5)

BATCHED = 3


def handle(request: LeaveGroupRequest, call: Call) -> Response | Later:
    if not request.group_id:
        return {"error_code": ErrorCode.INVALID_GROUP_ID}
    leaving: tuple[tuple[str, str | None], ...] = ((request.member_id, None),)
    if call.version >= BATCHED:
        leaving = tuple((member.member_id, member.group_instance_id) for member in request.members)

    def answered(answer: LeaveAnswer | ErrorCode) -> None:
        if isinstance(answer, ErrorCode):
            call.answer({"error_code": answer})
        elif call.version < BATCHED:
            call.answer({"error_code": answer.errors[0]})
        else:
            call.answer(
                {
                    "members": [
                        {"member_id": member_id, "group_instance_id": instance_id, "error_code": error}
                        for (member_id, instance_id), error in zip(leaving, answer.errors, strict=True)
                    ]
                }
            )

    call.services.groups.submit(request.group_id, Leave(leaving), answered)
    return LATER
