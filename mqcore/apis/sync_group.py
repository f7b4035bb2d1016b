"""SyncGroup: the leader sends the assignment, and each member receives its part.

Versions: 3 adds group.instance.id; 5 makes members name the protocol they expect (KIP-559).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from mqcore.apis.call import LATER, Api, Call, Later, Response
from mqcore.groups.commands import Sync, SyncAnswer
from mqcore.wire.errors import ErrorCode

if TYPE_CHECKING:
    from mqcore.wire.requests.sync_group import SyncGroupRequest

API = Api(14, "SyncGroup", 0, 5)

NAMES_PROTOCOL = 5


def handle(request: SyncGroupRequest, call: Call) -> Response | Later:
    if not request.group_id:
        return _response(SyncAnswer(ErrorCode.INVALID_GROUP_ID))
    if call.version >= NAMES_PROTOCOL and None in (request.protocol_type, request.protocol_name):
        return _response(SyncAnswer(ErrorCode.INCONSISTENT_GROUP_PROTOCOL))
    command = Sync(
        request.member_id,
        request.generation_id,
        request.group_instance_id,
        request.protocol_type,
        request.protocol_name,
        tuple((each.member_id, each.assignment) for each in request.assignments),
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
