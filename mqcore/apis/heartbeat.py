"""Heartbeat: a member is alive, and learns whether it has to join again."""

from __future__ import annotations

from typing import Any

from mqcore.apis.call import LATER, Api, Call, Later, Response
from mqcore.groups import commands
from mqcore.wire.errors import ErrorCode

API = Api(12, "Heartbeat", 0, 4)


def handle(request: Any, call: Call) -> Response | Later:
    if not request.group_id:
        return {"error_code": ErrorCode.INVALID_GROUP_ID}
    command = commands.Heartbeat(request.member_id, request.generation_id, request.group_instance_id)

    def answered(error: ErrorCode) -> None:
        call.answer({"error_code": error})

    call.services.groups.submit(request.group_id, command, answered)
    return LATER
