"""AlterConfigs: replace all settings of a resource; settings that are not named return to their defaults.

Versions: all have the same fields.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from mqcore.apis.call import Api, Call, Later, Response
from mqcore.apis.controller_requests import EntryOutcome, error_of, message_of, submit
from mqcore.controller.commands import Alteration, AlterConfigs, ConfigEdit, ResourceEdits

if TYPE_CHECKING:
    from mqcore.wire.requests.alter_configs import AlterConfigsRequest, AlterConfigsResource

API = Api(33, "AlterConfigs", 0, 2, forwarded=True)


def handle(request: AlterConfigsRequest, call: Call) -> Later:
    return submit_edits(call, request.validate_only, tuple(map(_replacement, request.resources)))


def submit_edits(call: Call, validate_only: bool, resources: tuple[ResourceEdits, ...]) -> Later:
    """Shared with IncrementalAlterConfigs: one outcome for each resource."""

    def respond(outcomes: Sequence[EntryOutcome]) -> Response:
        return {"responses": [_result(*pair) for pair in zip(resources, outcomes, strict=True)]}

    return submit(call, AlterConfigs(resources, validate_only), len(resources), respond)


def _replacement(resource: AlterConfigsResource) -> ResourceEdits:
    edits = tuple(ConfigEdit(config.name, Alteration.SET, config.value) for config in resource.configs)
    return ResourceEdits(resource.resource_type, resource.resource_name, edits, replace_all=True)


def _result(resource: ResourceEdits, outcome: EntryOutcome) -> Response:
    return {
        "error_code": error_of(outcome),
        "error_message": message_of(outcome),
        "resource_type": resource.resource_type,
        "resource_name": resource.resource,
    }
