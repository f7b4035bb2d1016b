"""LeaveGroup: members go, of their own will or by an administrator's; the others need not wait for a session to end."""

from __future__ import annotations

from typing import Any

from mqcore.apis.call import LATER, Api, Call, Later, Response
from mqcore.groups.commands import Leave, LeaveAnswer
from mqcore.wire.errors import ErrorCode

API = Api(13, "LeaveGroup", 0, 5)

BATCHED = 3  # from here on many members in one request, with an error each (KIP-345)


def handle(request: Any, call: Call) -> Response | Later:
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
