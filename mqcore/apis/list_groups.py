"""ListGroups: the groups that this broker coordinates, filtered by state and type.

Versions: 4 adds the state and a filter for it (KIP-518), 5 the type and a filter for it (KIP-848).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from mqcore.apis.call import Api, Call, Response
from mqcore.wire.errors import ErrorCode

if TYPE_CHECKING:
    from mqcore.wire.requests.list_groups import ListGroupsRequest

API = Api(16, "ListGroups", 0, 5)

CLASSIC = "classic"  # the only type of group that the broker supports


def handle(request: ListGroupsRequest, call: Call) -> Response:
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
