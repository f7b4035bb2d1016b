"""ElectLeaders: with one copy of everything, whoever can lead does so already."""

from __future__ import annotations

from typing import Any

from mqcore.apis.call import Api, Call, Response
from mqcore.wire.errors import ErrorCode

API = Api(43, "ElectLeaders", 0, 2)


def handle(request: Any, call: Call) -> Response:
    # Asked for all partitions, Kafka answers for those only that needed an election: none.
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


def _result(call: Call, name: str, index: int) -> Response:
    topic = call.services.image.topics.get(name)
    if topic is None or not 0 <= index < len(topic.partitions):
        error, message = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, "the partition does not exist"
    else:
        error, message = ErrorCode.ELECTION_NOT_NEEDED, "its leader is the one it should be"
    return {"partition_id": index, "error_code": error, "error_message": message}
