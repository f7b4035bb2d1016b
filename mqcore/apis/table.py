"""Table: the API modules by key: what the listeners for clients serve."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from types import ModuleType
from typing import Any, NamedTuple

from mqcore.apis import (
    add_raft_voter,
    alter_configs,
    alter_partition_reassignments,
    alter_replica_log_dirs,
    api_versions,
    create_acls,
    create_partitions,
    create_topics,
    delete_acls,
    delete_groups,
    delete_records,
    delete_topics,
    describe_acls,
    describe_cluster,
    describe_configs,
    describe_groups,
    describe_log_dirs,
    describe_producers,
    describe_quorum,
    describe_topic_partitions,
    elect_leaders,
    fetch,
    find_coordinator,
    heartbeat,
    incremental_alter_configs,
    init_producer_id,
    join_group,
    leave_group,
    list_config_resources,
    list_groups,
    list_offsets,
    list_partition_reassignments,
    metadata,
    offset_commit,
    offset_delete,
    offset_fetch,
    offset_for_leader_epoch,
    produce,
    sasl_authenticate,
    sasl_handshake,
    sync_group,
    unregister_broker,
)
from mqcore.apis.call import Api
from mqcore.wire.fast_primitives import Piece
from mqcore.wire.messages import decode_request, encode_response

MODULES: tuple[ModuleType, ...] = (
    produce,
    fetch,
    list_offsets,
    metadata,
    offset_commit,
    offset_fetch,
    find_coordinator,
    join_group,
    heartbeat,
    leave_group,
    sync_group,
    describe_groups,
    list_groups,
    sasl_handshake,
    api_versions,
    create_topics,
    delete_topics,
    delete_records,
    init_producer_id,
    offset_for_leader_epoch,
    describe_acls,
    create_acls,
    delete_acls,
    describe_configs,
    alter_configs,
    alter_replica_log_dirs,
    describe_log_dirs,
    sasl_authenticate,
    create_partitions,
    delete_groups,
    elect_leaders,
    incremental_alter_configs,
    alter_partition_reassignments,
    list_partition_reassignments,
    offset_delete,
    describe_quorum,
    describe_cluster,
    describe_producers,
    list_config_resources,
    unregister_broker,
    describe_topic_partitions,
    add_raft_voter,
)


class ApiEntry(NamedTuple):
    """`decode` takes the version, the frame and where the body begins; `encode` the version and the handler's
    answer."""

    api: Api
    handle: Callable[[Any, Any], Any]
    decode: Callable[[int, memoryview, int], Any]
    encode: Callable[[int, Any], list[Piece]]


def _decode(key: int, version: int, frame: memoryview, position: int) -> Any:
    return decode_request(key, version, frame[position:])


def _encode(key: int, version: int, response: Any) -> list[Piece]:
    return [encode_response(key, version, response)]


def entry_of(module: ModuleType) -> ApiEntry:
    """Produce, Fetch and Metadata have codecs of their own; the others come from the schemas."""
    key = module.API.key
    decode = getattr(module, "decode", partial(_decode, key))
    encode = getattr(module, "encode", partial(_encode, key))
    return ApiEntry(module.API, module.handle, decode, encode)


ApiTable = Mapping[int, ApiEntry]
"""By API key."""

TABLE: ApiTable = {module.API.key: entry_of(module) for module in MODULES}
