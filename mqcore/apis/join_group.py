"""JoinGroup: a consumer joins a group. The answer waits until the other members have joined too.

Versions: 4 makes a client without a member id fetch one and join again with it (KIP-394), 5 adds group.instance.id,
7 allows a null protocol in the response, 9 lets the leader skip an assignment that would not be used (KIP-814).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from mqcore.apis.call import LATER, Api, Call, Later, Response
from mqcore.groups.commands import AbandonJoin, Join, JoinAnswer
from mqcore.wire.errors import ErrorCode

if TYPE_CHECKING:
    from mqcore.wire.requests.join_group import JoinGroupRequest

API = Api(11, "JoinGroup", 0, 9)

REQUIRES_MEMBER_ID = 4
NULLABLE_PROTOCOL = 7
SKIP_ASSIGNMENT = 9

_MEMBER_ID_PREFIX_CHARACTERS_MAX = 200
_CLIENT_ID_CHARACTERS_MAX = 255
"""A member keeps this much of its client id. The rest is dropped, because the client id is only a label for tools but
is part of every record of the group."""


def handle(request: JoinGroupRequest, call: Call) -> Response | Later:
    if not request.group_id:
        return _response(JoinAnswer(ErrorCode.INVALID_GROUP_ID, request.member_id), call.version)
    prefix = call.client_id if request.group_instance_id is None else request.group_instance_id
    timeout_ms = request.rebalance_timeout_ms
    command = Join(
        member_id=request.member_id,
        fresh_member_id=f"{prefix[:_MEMBER_ID_PREFIX_CHARACTERS_MAX]}-{call.services.chance.new_uuid()}",
        instance_id=request.group_instance_id,
        client_id=call.client_id[:_CLIENT_ID_CHARACTERS_MAX],
        client_host=f"/{call.client_host}",  # as Kafka's tools show it
        session_timeout_ms=request.session_timeout_ms,
        rebalance_timeout_ms=timeout_ms if timeout_ms >= 0 else request.session_timeout_ms,
        protocol_type=request.protocol_type,
        protocols=tuple((protocol.name, protocol.metadata) for protocol in request.protocols),
        requires_issued_id=call.version >= REQUIRES_MEMBER_ID,
        can_skip_assignment=call.version >= SKIP_ASSIGNMENT,
    )

    def answered(answer: JoinAnswer | ErrorCode) -> None:
        if isinstance(answer, ErrorCode):
            answer = JoinAnswer(answer, command.member_id)
        call.answer(_response(answer, call.version))

    abandon = AbandonJoin(command.member_id or command.fresh_member_id)
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
