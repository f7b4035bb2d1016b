"""CreatePartitions: add partitions to existing topics.

Versions: all have the same fields. Left out: quotas for creating partitions (KIP-599, version 3).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from mqcore.apis.call import Api, Call, Later, Response
from mqcore.apis.controller_requests import EntryOutcome, error_of, message_of, submit
from mqcore.controller.commands import CreatePartitions, PartitionIncrease
from mqcore.identity import BrokerId

if TYPE_CHECKING:
    from mqcore.wire.requests.create_partitions import CreatePartitionsRequest, CreatePartitionsTopic

API = Api(37, "CreatePartitions", 0, 3, forwarded=True)


def handle(request: CreatePartitionsRequest, call: Call) -> Later:
    topics = tuple(map(_more_partitions, request.topics))

    def respond(outcomes: Sequence[EntryOutcome]) -> Response:
        return {
            "results": [
                {"name": more.topic, "error_code": error_of(outcome), "error_message": message_of(outcome)}
                for more, outcome in zip(topics, outcomes, strict=True)
            ]
        }

    return submit(call, CreatePartitions(topics, request.validate_only), len(topics), respond)


def _more_partitions(topic: CreatePartitionsTopic) -> PartitionIncrease:
    assignments = None
    if topic.assignments is not None:
        assignments = tuple(tuple(map(BrokerId, assignment.broker_ids)) for assignment in topic.assignments)
    return PartitionIncrease(topic.name, topic.count, assignments)
