"""ListGroups: the groups that this broker coordinates."""

from __future__ import annotations

from typing import Any

from mqcore.apis.call import Api, Call, Response
from mqcore.wire.errors import ErrorCode

API = Api(16, "ListGroups", 0, 5)

CLASSIC = "classic"  # the only type there is


def handle(request: Any, call: Call) -> Response:
    groups = call.services.groups.list_groups()
    if isinstance(groups, ErrorCode):
        return {"error_code": groups, "groups": []}
    states = {state.lower() for state in request.states_filter}
    types = {group_type.lower() for group_type in request.types_filter}
    return {
        "groups": [
            {
                "group_id": group.group_id,
                "protocol_type": group.protocol_type,
                "group_state": group.phase.value,
                "group_type": CLASSIC,
            }
            for group in groups
            if (not states or group.phase.value.lower() in states) and (not types or CLASSIC in types)
        ]
    }
