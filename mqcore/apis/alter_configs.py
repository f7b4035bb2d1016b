"""AlterConfigs: all settings of a resource at once; what is not named goes back to its default."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from mqcore.apis.asking import Entry, ask, error_of, message_of
from mqcore.apis.call import Api, Call, Later, Response
from mqcore.controller.commands import Alteration, AlterConfigs, ConfigEdit, ResourceEdits

API = Api(33, "AlterConfigs", 0, 2)


def handle(request: Any, call: Call) -> Later:
    return alter(call, request.validate_only, tuple(map(_replacement, request.resources)))


def alter(call: Call, validate_only: bool, resources: tuple[ResourceEdits, ...]) -> Later:
    """The rest of this request and of its incremental sister: one answer for each resource."""

    def respond(entries: Sequence[Entry]) -> Response:
        return {"responses": [_result(*pair) for pair in zip(resources, entries, strict=True)]}

    return ask(call, AlterConfigs(resources, validate_only), len(resources), respond)


def _replacement(resource: Any) -> ResourceEdits:
    edits = tuple(ConfigEdit(config.name, Alteration.SET, config.value) for config in resource.configs)
    return ResourceEdits(resource.resource_type, resource.resource_name, edits, replace_all=True)


def _result(resource: ResourceEdits, entry: Entry) -> Response:
    return {
        "error_code": error_of(entry),
        "error_message": message_of(entry),
        "resource_type": resource.resource_type,
        "resource_name": resource.resource,
    }
