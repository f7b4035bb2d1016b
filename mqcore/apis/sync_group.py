"""SyncGroup: the leader brings the assignment, everybody gets their part of it."""

from __future__ import annotations

from typing import Any

from mqcore.apis.call import LATER, Api, Call, Later, Response
from mqcore.groups.commands import Sync, SyncAnswer
from mqcore.wire.errors import ErrorCode

API = Api(14, "SyncGroup", 0, 5)

PROTOCOL_NAMED = 5  # from here on members say which protocol they mean (KIP-559)


def handle(request: Any, call: Call) -> Response | Later:
    if not request.group_id:
        return _response(SyncAnswer(ErrorCode.INVALID_GROUP_ID))
    if call.version >= PROTOCOL_NAMED and None in (request.protocol_type, request.protocol_name):
        return _response(SyncAnswer(ErrorCode.INCONSISTENT_GROUP_PROTOCOL))
    command = Sync(
        request.member_id,
        request.generation_id,
        request.group_instance_id,
        request.protocol_type,
        request.protocol_name,
        tuple((given.member_id, given.assignment) for given in request.assignments),
    )

    def answered(answer: SyncAnswer | ErrorCode) -> None:
        call.answer(_response(SyncAnswer(answer) if isinstance(answer, ErrorCode) else answer))

    call.services.groups.submit(request.group_id, command, answered)
    return LATER


def _response(answer: SyncAnswer) -> Response:
    return {
        "error_code": answer.error,
        "protocol_type": answer.protocol_type,
        "protocol_name": answer.protocol,
        "assignment": answer.assignment,
    }
