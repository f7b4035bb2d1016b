"""ListConfigResources: the names of everything that has settings. KIP-1142.

Versions: 0 lists only client metrics, which this broker does not have; 1 adds a filter by type.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from mqcore.apis.call import Api, Call, Response
from mqcore.controller.facts import ResourceType
from mqcore.controller.image import ClusterImage
from mqcore.wire.errors import ErrorCode

if TYPE_CHECKING:
    from mqcore.wire.requests.list_config_resources import ListConfigResourcesRequest

API = Api(74, "ListConfigResources", 0, 1)

_KNOWN_TYPES = frozenset(map(int, ResourceType))


def handle(request: ListConfigResourcesRequest, call: Call) -> Response:
    if call.version == 0:
        wanted: set[int] | frozenset[int] = {int(ResourceType.CLIENT_METRICS)}
    else:
        wanted = set(request.resource_types) or _KNOWN_TYPES
    if not wanted <= _KNOWN_TYPES:
        return {"error_code": ErrorCode.UNSUPPORTED_VERSION}
    image = call.services.image
    return {
        "error_code": ErrorCode.NONE,
        "config_resources": [
            {"resource_name": name, "resource_type": kind}
            for kind in sorted(wanted)
            for name in _names(image, ResourceType(kind))
        ],
    }


def _names(image: ClusterImage, kind: ResourceType) -> Iterable[str]:
    match kind:
        case ResourceType.TOPIC:
            return image.topics
        case ResourceType.BROKER | ResourceType.BROKER_LOGGER:
            return map(str, image.brokers)
        case _:
            return image.configured_resources(kind)
