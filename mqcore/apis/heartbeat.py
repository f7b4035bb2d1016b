"""Heartbeat: keep a member's session alive, and tell the member whether it must rejoin.

Versions: 3 adds group.instance.id.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from mqcore.apis.call import LATER, Api, Call, Later, Response
from mqcore.groups import commands
from mqcore.wire.errors import ErrorCode

if TYPE_CHECKING:
    from mqcore.wire.requests.heartbeat import HeartbeatRequest

API = Api(12, "Heartbeat", 0, 4)


def handle(request: HeartbeatRequest, call: Call) -> Response | Later:
    if not request.group_id:
        return {"error_code": ErrorCode.INVALID_GROUP_ID}
    command = commands.Heartbeat(request.member_id, request.generation_id, request.group_instance_id)

    def answered(error: ErrorCode) -> None:
        call.answer({"error_code": error})

    call.services.groups.submit(request.group_id, command, answered)
    return LATER
