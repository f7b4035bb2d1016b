"""IncrementalAlterConfigs: set or delete single settings, or append to and subtract from lists. KIP-339.

Versions: all have the same fields.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from mqcore.apis.alter_configs import submit_edits
from mqcore.apis.call import Api, Call, Later
from mqcore.controller.commands import ConfigEdit, ResourceEdits

if TYPE_CHECKING:
    from mqcore.wire.requests.incremental_alter_configs import AlterConfigsResource, IncrementalAlterConfigsRequest

API = Api(44, "IncrementalAlterConfigs", 0, 1, forwarded=True)


def handle(request: IncrementalAlterConfigsRequest, call: Call) -> Later:
    return submit_edits(call, request.validate_only, tuple(map(_edits, request.resources)))


def _edits(resource: AlterConfigsResource) -> ResourceEdits:
    edits = tuple(ConfigEdit(config.name, config.config_operation, config.value) for config in resource.configs)
    return ResourceEdits(resource.resource_type, resource.resource_name, edits)
