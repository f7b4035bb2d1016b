"""ElectLeaders: no partition needs an election, because its only replica leads already.

Versions: 1 adds unclean elections (KIP-460) and an error code for the whole response.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from mqcore.apis.call import Api, Call, Response
from mqcore.apis.lookup import find_partition_image
from mqcore.wire.errors import ErrorCode

if TYPE_CHECKING:
    from mqcore.wire.requests.elect_leaders import ElectLeadersRequest

API = Api(43, "ElectLeaders", 0, 2)


def handle(request: ElectLeadersRequest, call: Call) -> Response:
    # If the list is null (all partitions), Kafka returns only those that needed an election, so the result is empty.
    return {
        "error_code": ErrorCode.NONE,
        "replica_election_results": [
            {
                "topic": wanted.topic,
                "partition_result": [_result(call, wanted.topic, index) for index in wanted.partitions],
            }
            for wanted in request.topic_partitions or ()
        ],
    }


def _result(call: Call, topic: str, index: int) -> Response:
    if find_partition_image(call.services, topic, index) is None:
        error, message = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, "the partition does not exist"
    else:
        error, message = ErrorCode.ELECTION_NOT_NEEDED, "the preferred replica already leads"
    return {"partition_id": index, "error_code": error, "error_message": message}
