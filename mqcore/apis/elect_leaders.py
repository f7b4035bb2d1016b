"""ElectLeaders: give partitions back to their preferred leaders, or elect one that lacks records as a last resort.

Versions: 1 adds unclean elections (KIP-460) and an error code for the whole response.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import groupby
from typing import TYPE_CHECKING

from mqcore.apis.call import Api, Call, Later, Response
from mqcore.apis.controller_requests import EntryOutcome, error_of, message_of, submit
from mqcore.controller.cluster_commands import Election, ElectLeaders
from mqcore.controller.image import ClusterImage
from mqcore.wire.errors import ErrorCode

if TYPE_CHECKING:
    from mqcore.wire.requests.elect_leaders import ElectLeadersRequest

API = Api(43, "ElectLeaders", 0, 2, forwarded=True)

ELECTIONS = {0: Election.PREFERRED, 1: Election.UNCLEAN}


def handle(request: ElectLeadersRequest, call: Call) -> Response | Later:
    election = ELECTIONS.get(request.election_type)
    if election is None:
        return {"error_code": ErrorCode.INVALID_REQUEST, "replica_election_results": []}
    if request.topic_partitions is None:  # all partitions: Kafka returns only those that needed an election
        partitions = tuple(_needing(call.services.image, election))
    else:
        partitions = tuple((topic.topic, index) for topic in request.topic_partitions for index in topic.partitions)

    def respond(outcomes: Sequence[EntryOutcome]) -> Response:
        results = zip(partitions, outcomes, strict=True)
        return {
            "error_code": ErrorCode.NONE,
            "replica_election_results": [
                {"topic": topic, "partition_result": [_result(index, outcome) for (_, index), outcome in group]}
                for topic, group in groupby(results, key=lambda result: result[0][0])
            ],
        }

    return submit(call, ElectLeaders(election, partitions), len(partitions), respond)


def _needing(image: ClusterImage, election: Election) -> Iterator[tuple[str, int]]:
    for topic, partition in image.partitions():
        is_led = partition.has_leader
        if partition.leader != partition.replicas[0] if election is Election.PREFERRED else not is_led:
            yield topic.name, partition.index


def _result(index: int, outcome: EntryOutcome) -> Response:
    return {"partition_id": index, "error_code": error_of(outcome), "error_message": message_of(outcome)}
