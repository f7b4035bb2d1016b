"""IncrementalAlterConfigs: single settings set, deleted, or (lists) lengthened and shortened. KIP-339."""

from __future__ import annotations

from typing import Any

from mqcore.apis.alter_configs import alter
from mqcore.apis.call import Api, Call, Later
from mqcore.controller.commands import ConfigEdit, ResourceEdits

API = Api(44, "IncrementalAlterConfigs", 0, 1)


def handle(request: Any, call: Call) -> Later:
    return alter(call, request.validate_only, tuple(map(_edits, request.resources)))


def _edits(resource: Any) -> ResourceEdits:
    edits = tuple(ConfigEdit(config.name, config.config_operation, config.value) for config in resource.configs)
    return ResourceEdits(resource.resource_type, resource.resource_name, edits)
