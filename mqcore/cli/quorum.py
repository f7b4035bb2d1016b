"""Shell: `mqcore quorum describe` shows the voters of the metadata log, and `adopt` makes an observer a voter."""

from __future__ import annotations

import sys
from typing import Any, Final, TextIO
from uuid import UUID

from mqcore.cli.client import Client, ClientError, check, table
from mqcore.identity import METADATA_TOPIC, NO_TOPIC_ID, kafka_uuid
from mqcore.wire.errors import ErrorCode

DESCRIBE_QUORUM: Final = (55, 2)
ADD_RAFT_VOTER: Final = (80, 0)
ADOPT_MS_MAX: Final = 10_000
MAJORITY_NEEDED: Final = "a majority of controller.quorum.voters has to run and to reach each other"


def describe(bootstrap: str, out: TextIO | None = None) -> int:
    with Client.to(bootstrap) as client:
        quorum = _quorum(client)
    out = out or sys.stdout
    print(f"leader {quorum.leader_id}, epoch {quorum.leader_epoch}, committed up to {quorum.high_watermark}", file=out)
    end = max((voter.log_end_offset for voter in quorum.current_voters), default=0)
    rows: list[tuple[str, ...]] = [("node", "role", "directory", "log end", "behind")]
    for role, replicas in (("voter", quorum.current_voters), ("observer", quorum.observers)):
        for each in replicas:
            name = "leader" if each.replica_id == quorum.leader_id else role
            directory = kafka_uuid(each.replica_directory_id or NO_TOPIC_ID)
            behind = str(end - each.log_end_offset) if each.log_end_offset >= 0 else "unknown"
            rows.append((str(each.replica_id), name, directory, str(each.log_end_offset), behind))
    print(table(rows), file=out)
    return 0


def adopt(bootstrap: str, node_id: int, out: TextIO | None = None) -> int:
    """A node that has lost its folder comes back as an observer. Only the operator knows that the lost folder, with
    the votes it has given, will not come back too."""
    with Client.to(bootstrap) as client:
        directory = _observer(_quorum(client), node_id)
        answer = client.request(
            *ADD_RAFT_VOTER,
            cluster_id=None,
            timeout_ms=ADOPT_MS_MAX,
            voter_id=node_id,
            voter_directory_id=directory,
            listeners=(),
        )
    check(f"node {node_id} cannot be adopted", answer.error_code, answer.error_message)
    print(f"node {node_id} is a voter with directory {kafka_uuid(directory)}", file=out or sys.stdout)
    return 0


def _quorum(client: Client) -> Any:
    partition = {"topic_name": METADATA_TOPIC, "partitions": [{"partition_index": 0}]}
    answer = client.request(*DESCRIBE_QUORUM, topics=[partition])
    check("the quorum cannot be described", answer.error_code, answer.error_message)
    found = answer.topics[0].partitions[0]
    if found.error_code == ErrorCode.NOT_LEADER_OR_FOLLOWER:
        raise ClientError(f"{client.address} has found no active controller: {MAJORITY_NEEDED}")
    check("the quorum cannot be described", found.error_code, found.error_message)
    return found


def _observer(quorum: Any, node_id: int) -> UUID:
    directories = [each.replica_directory_id for each in quorum.observers if each.replica_id == node_id]
    if len(directories) == 1 and directories[0] is not None:
        return UUID(int=directories[0].int)
    if directories:
        raise ClientError(f"node {node_id} is known with {len(directories)} folders; stop all but one of them")
    raise ClientError(f"node {node_id} is not an observer; `mqcore quorum describe` shows which nodes are")
