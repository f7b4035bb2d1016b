"""JoinGroup: a consumer wants to be in a group; the answer waits until all others are there, too."""

from __future__ import annotations

from typing import Any
from uuid import uuid4

from mqcore.apis.call import LATER, Api, Call, Later, Response
from mqcore.groups.commands import Abandon, Join, JoinAnswer
from mqcore.wire.errors import ErrorCode

API = Api(11, "JoinGroup", 0, 9)

IDS_FIRST = 4  # from here on a client without member id is given one and has to come back with it (KIP-394)
NULLABLE_PROTOCOL = 7
SKIP_ASSIGNMENT = 9

_LONGEST_PREFIX = 200  # characters of client or instance id in a member id
_LONGEST_CLIENT_ID = 255  # characters that a member keeps of it: a label for tools, and part of every group record


def handle(request: Any, call: Call) -> Response | Later:
    if not request.group_id:
        return _response(JoinAnswer(ErrorCode.INVALID_GROUP_ID, request.member_id), call.version)
    prefix = call.client_id if request.group_instance_id is None else request.group_instance_id
    timeout_ms = request.rebalance_timeout_ms
    command = Join(
        member_id=request.member_id,
        fresh_member_id=f"{prefix[:_LONGEST_PREFIX]}-{uuid4()}",
        instance_id=request.group_instance_id,
        client_id=call.client_id[:_LONGEST_CLIENT_ID],
        client_host=f"/{call.client_host}",  # as Kafka's tools show it
        session_timeout_ms=request.session_timeout_ms,
        rebalance_timeout_ms=timeout_ms if timeout_ms >= 0 else request.session_timeout_ms,
        protocol_type=request.protocol_type,
        protocols=tuple((protocol.name, protocol.metadata) for protocol in request.protocols),
        id_required=call.version >= IDS_FIRST,
        can_skip_assignment=call.version >= SKIP_ASSIGNMENT,
    )

    def answered(answer: JoinAnswer | ErrorCode) -> None:
        if isinstance(answer, ErrorCode):
            answer = JoinAnswer(answer, command.member_id)
        call.answer(_response(answer, call.version))

    abandon = Abandon(command.member_id or command.fresh_member_id)
    groups, group_id = call.services.groups, request.group_id
    call.when_gone = lambda: groups.submit(group_id, abandon, lambda error: None)
    groups.submit(group_id, command, answered)
    return LATER


def _response(answer: JoinAnswer, version: int) -> Response:
    return {
        "error_code": answer.error,
        "generation_id": answer.generation,
        "protocol_type": answer.protocol_type,
        "protocol_name": answer.protocol if version >= NULLABLE_PROTOCOL else answer.protocol or "",
        "leader": answer.leader,
        "skip_assignment": answer.skip_assignment,
        "member_id": answer.member_id,
        "members": [
            {"member_id": member_id, "group_instance_id": instance_id, "metadata": subscription}
            for member_id, instance_id, subscription in answer.members
        ],
    }
