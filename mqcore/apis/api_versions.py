"""ApiVersions: the APIs and versions of the listener. An unknown version gets a version-0 response with error 35.

Versions: 3 adds the name and version of the client software and the finalized features; 4 allows a minimum feature
version of 0.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from mqcore.apis.call import Api, Call, Response
from mqcore.wire.errors import ErrorCode

if TYPE_CHECKING:
    from mqcore.apis.table import ApiTable
    from mqcore.wire.requests.api_versions import ApiVersionsRequest

API = Api(18, "ApiVersions", 0, 4)

RELEASE = (4, 2)
"""Each API here has the versions it has in this release of Kafka, because clients infer a release from them."""

METADATA_VERSION = 29  # 4.2-IV1, in Kafka's numbering of the formats of a metadata log
METADATA_VERSION_MIN = 7  # 3.3-IV3, the first in Kafka's table

CLIENT_NAME = re.compile(r"[a-zA-Z0-9](?:[a-zA-Z0-9.-]*[a-zA-Z0-9])?")


def _served_versions(call: Call) -> list[dict[str, int]]:
    return [
        {"api_key": key, "min_version": entry.api.first_version, "max_version": entry.api.last_version}
        for key, entry in sorted(_table(call).items())
    ]


def _table(call: Call) -> ApiTable:
    """Imported here, because the tables import this module."""
    if call.listener and call.listener == call.services.config.controller_listener:
        from mqcore.apis.controller_table import CONTROLLER_TABLE

        return CONTROLLER_TABLE
    from mqcore.apis.table import TABLE

    return TABLE


def unsupported_version(call: Call) -> Response:
    return {"error_code": ErrorCode.UNSUPPORTED_VERSION, "api_keys": _served_versions(call)}


def handle(request: ApiVersionsRequest, call: Call) -> Response:
    if call.version >= 3:
        names = (request.client_software_name, request.client_software_version)
        if not all(CLIENT_NAME.fullmatch(name) for name in names):
            return {"error_code": ErrorCode.INVALID_REQUEST, "api_keys": []}
    feature = "metadata.version"
    return {
        "api_keys": _served_versions(call),
        "supported_features": [{"name": feature, "min_version": METADATA_VERSION_MIN, "max_version": METADATA_VERSION}],
        "finalized_features_epoch": 0,
        "finalized_features": [
            {"name": feature, "min_version_level": METADATA_VERSION, "max_version_level": METADATA_VERSION}
        ],
    }
