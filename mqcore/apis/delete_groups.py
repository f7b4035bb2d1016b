"""DeleteGroups: delete groups without members, with all their offsets.

Versions: all have the same fields.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from mqcore.apis.call import LATER, Api, Call, Later
from mqcore.groups.commands import DeleteGroup
from mqcore.wire.errors import ErrorCode

if TYPE_CHECKING:
    from mqcore.wire.requests.delete_groups import DeleteGroupsRequest

API = Api(42, "DeleteGroups", 0, 2)


def handle(request: DeleteGroupsRequest, call: Call) -> Later:
    group_ids = list(dict.fromkeys(request.groups_names))

    def answered(errors: list[ErrorCode]) -> None:
        results = [
            {"group_id": group_id, "error_code": error} for group_id, error in zip(group_ids, errors, strict=True)
        ]
        call.answer({"results": results})

    call.services.groups.submit_all([(group_id, DeleteGroup()) for group_id in group_ids], answered)
    return LATER
