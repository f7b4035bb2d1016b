"""DescribeCluster: the brokers, at the addresses that clients of this listener are told. KIP-700, KIP-919."""

from __future__ import annotations

from typing import Any

from mqcore.apis.call import Api, Call, Response
from mqcore.apis.operations import EVERYTHING_WITH_THE_CLUSTER, NOT_ASKED
from mqcore.wire.errors import ErrorCode

API = Api(60, "DescribeCluster", 0, 2)

BROKERS = 1
CONTROLLERS = 2


def handle(request: Any, call: Call) -> Response:
    services = call.services
    if request.endpoint_type == CONTROLLERS:
        return _refused(request, call, ErrorCode.MISMATCHED_ENDPOINT_TYPE, "this is a broker's listener")
    if request.endpoint_type != BROKERS:
        return _refused(request, call, ErrorCode.UNSUPPORTED_ENDPOINT_TYPE, "endpoints are of type 1 or 2")
    brokers = []
    for broker in services.image.brokers.values():
        endpoint = services.endpoint(broker.broker, call.listener)
        if endpoint is not None:
            host, port = endpoint
            brokers.append({"broker_id": broker.broker, "host": host, "port": port, "rack": broker.rack})
    return {
        "cluster_id": services.cluster_id,
        "controller_id": services.config.node_id,
        "brokers": brokers,
        "cluster_authorized_operations": (
            EVERYTHING_WITH_THE_CLUSTER if request.include_cluster_authorized_operations else NOT_ASKED
        ),
    }


def _refused(request: Any, call: Call, error: ErrorCode, message: str) -> Response:
    return {
        "error_code": error,
        "error_message": message,
        "endpoint_type": request.endpoint_type,
        "cluster_id": call.services.cluster_id,
    }
