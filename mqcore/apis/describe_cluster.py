"""DescribeCluster: the brokers, at the addresses advertised for the client's listener. KIP-700.

Versions: 1 adds the endpoint type (KIP-919), 2 fenced brokers, if the client asks for them (KIP-1073).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from mqcore.apis.call import Api, Call, Response
from mqcore.apis.operations import ALL_CLUSTER_OPERATIONS, NOT_REQUESTED
from mqcore.wire.errors import ErrorCode

if TYPE_CHECKING:
    from mqcore.wire.requests.describe_cluster import DescribeClusterRequest

API = Api(60, "DescribeCluster", 0, 2)

BROKERS = 1
CONTROLLERS = 2


def handle(request: DescribeClusterRequest, call: Call) -> Response:
    services = call.services
    if request.endpoint_type == CONTROLLERS:
        return _refusal(request, call, ErrorCode.MISMATCHED_ENDPOINT_TYPE, "this is a broker's listener")
    if request.endpoint_type != BROKERS:
        message = f"endpoint type {request.endpoint_type} is unknown, use 1 (brokers) or 2 (controllers)"
        return _refusal(request, call, ErrorCode.UNSUPPORTED_ENDPOINT_TYPE, message)
    brokers = []
    for broker in services.image.brokers.values():
        endpoint = services.endpoint(broker.broker, call.listener)
        if endpoint is not None and (request.include_fenced_brokers or not broker.fenced):
            host, port = endpoint
            row = {"broker_id": broker.broker, "host": host, "port": port, "rack": broker.rack}
            brokers.append({**row, "is_fenced": broker.fenced})
    return {
        "cluster_id": services.cluster_id,
        "controller_id": services.controller_id(),
        "brokers": brokers,
        "cluster_authorized_operations": (
            ALL_CLUSTER_OPERATIONS if request.include_cluster_authorized_operations else NOT_REQUESTED
        ),
    }


def _refusal(request: DescribeClusterRequest, call: Call, error: ErrorCode, message: str) -> Response:
    return {
        "error_code": error,
        "error_message": message,
        "endpoint_type": request.endpoint_type,
        "cluster_id": call.services.cluster_id,
    }
