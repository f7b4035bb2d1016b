"""ApiVersions: what is served, from the table itself. An unknown version gets a version-0 body and error 35."""

from __future__ import annotations

import re
from typing import Any

from mqcore.apis.call import Api, Call, Response
from mqcore.wire.errors import ErrorCode

API = Api(18, "ApiVersions", 0, 4)

RELEASE = (4, 2)
"""Of Kafka: each API that is served has the versions it has there. Clients infer a release from them."""

METADATA_VERSION = 29  # 4.2-IV1, in Kafka's numbering of what a metadata log of that release may hold
LEAST_METADATA = 7  # 3.3-IV3, where its table begins

CLIENT_NAME = re.compile(r"[a-zA-Z0-9](?:[a-zA-Z0-9.-]*[a-zA-Z0-9])?")


def served() -> list[dict[str, int]]:
    from mqcore.apis.table import TABLE  # the table holds this module, too

    return [
        {"api_key": key, "min_version": entry.api.first_version, "max_version": entry.api.last_version}
        for key, entry in sorted(TABLE.items())
    ]


def unsupported() -> Response:
    return {"error_code": ErrorCode.UNSUPPORTED_VERSION, "api_keys": served()}


def handle(request: Any, call: Call) -> Response:
    if call.version >= 3:
        told = (request.client_software_name, request.client_software_version)
        if not all(CLIENT_NAME.fullmatch(text) for text in told):
            return {"error_code": ErrorCode.INVALID_REQUEST, "api_keys": []}
    name = "metadata.version"
    return {
        "api_keys": served(),
        "supported_features": [{"name": name, "min_version": LEAST_METADATA, "max_version": METADATA_VERSION}],
        "finalized_features_epoch": 0,
        "finalized_features": [
            {"name": name, "min_version_level": METADATA_VERSION, "max_version_level": METADATA_VERSION}
        ],
    }
