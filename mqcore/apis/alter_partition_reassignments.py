"""AlterPartitionReassignments: move partitions to other brokers, or cancel that. KIP-455.

Versions: 1 adds the flag that forbids changing the replication factor.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from mqcore.apis.call import Api, Call, Later, Response
from mqcore.apis.controller_requests import EntryOutcome, error_of, message_of, submit
from mqcore.controller.cluster_commands import Reassign, Reassignment
from mqcore.identity import BrokerId

if TYPE_CHECKING:
    from mqcore.wire.requests.alter_partition_reassignments import (
        AlterPartitionReassignmentsRequest,
        ReassignablePartition,
    )

API = Api(45, "AlterPartitionReassignments", 0, 1, forwarded=True)


def handle(request: AlterPartitionReassignmentsRequest, call: Call) -> Later:
    wanted = tuple(_reassignment(topic.name, each) for topic in request.topics for each in topic.partitions)

    def respond(outcomes: Sequence[EntryOutcome]) -> Response:
        rest = iter(outcomes)
        return {
            "allow_replication_factor_change": request.allow_replication_factor_change,
            "responses": [
                {"name": topic.name, "partitions": [_result(each, next(rest)) for each in topic.partitions]}
                for topic in request.topics
            ],
        }

    return submit(call, Reassign(wanted, request.allow_replication_factor_change), len(wanted), respond)


def _reassignment(topic: str, wanted: ReassignablePartition) -> Reassignment:
    replicas = None if wanted.replicas is None else tuple(map(BrokerId, wanted.replicas))
    return Reassignment(topic, wanted.partition_index, replicas)


def _result(wanted: ReassignablePartition, outcome: EntryOutcome) -> Response:
    return {
        "partition_index": wanted.partition_index,
        "error_code": error_of(outcome),
        "error_message": message_of(outcome),
    }
