"""ListConfigResources: what has settings. Version 0 knows client metrics only, and there are none. KIP-1142."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from mqcore.apis.call import Api, Call, Response
from mqcore.controller.facts import ResourceType
from mqcore.controller.image import ClusterImage
from mqcore.wire.errors import ErrorCode

API = Api(74, "ListConfigResources", 0, 1)

_KNOWN = frozenset(map(int, ResourceType))


def handle(request: Any, call: Call) -> Response:
    wanted = {int(ResourceType.CLIENT_METRICS)} if call.version == 0 else set(request.resource_types) or _KNOWN
    if not wanted <= _KNOWN:
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
            return image.configured(kind)
