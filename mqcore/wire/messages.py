"""Codec: requests and responses other than Produce and Fetch, by API key and version.

Requests are decoded into the types of `requests`; responses are encoded from mappings. Field names are Kafka's in snake
case. A field of type uuid is None for the zero UUID. Readers and writers are compiled when a message is first used in a
version, and the compiler is imported then, so startup pays for none of them.

A frame may be longer than its message. Kafka ignores the rest, and some clients rely on that.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from typing import TYPE_CHECKING, Any, Final

from mqcore.wire.batches import Buffer
from mqcore.wire.frames import BadFrame
from mqcore.wire.primitives import Reader, Writer

if TYPE_CHECKING:
    from mqcore.wire.schema_codecs import ReadFunction, WriteFunction
    from mqcore.wire.schemas import Schema

NAMES: Final[dict[int, str]] = {
    0: "Produce",
    1: "Fetch",
    2: "ListOffsets",
    3: "Metadata",
    8: "OffsetCommit",
    9: "OffsetFetch",
    10: "FindCoordinator",
    11: "JoinGroup",
    12: "Heartbeat",
    13: "LeaveGroup",
    14: "SyncGroup",
    15: "DescribeGroups",
    16: "ListGroups",
    17: "SaslHandshake",
    18: "ApiVersions",
    19: "CreateTopics",
    20: "DeleteTopics",
    21: "DeleteRecords",
    22: "InitProducerId",
    23: "OffsetForLeaderEpoch",
    24: "AddPartitionsToTxn",
    25: "AddOffsetsToTxn",
    26: "EndTxn",
    27: "WriteTxnMarkers",
    28: "TxnOffsetCommit",
    29: "DescribeAcls",
    30: "CreateAcls",
    31: "DeleteAcls",
    32: "DescribeConfigs",
    33: "AlterConfigs",
    34: "AlterReplicaLogDirs",
    35: "DescribeLogDirs",
    36: "SaslAuthenticate",
    37: "CreatePartitions",
    42: "DeleteGroups",
    43: "ElectLeaders",
    44: "IncrementalAlterConfigs",
    45: "AlterPartitionReassignments",
    46: "ListPartitionReassignments",
    47: "OffsetDelete",
    48: "DescribeClientQuotas",
    49: "AlterClientQuotas",
    50: "DescribeUserScramCredentials",
    51: "AlterUserScramCredentials",
    52: "Vote",
    53: "BeginQuorumEpoch",
    54: "EndQuorumEpoch",
    55: "DescribeQuorum",
    56: "AlterPartition",
    57: "UpdateFeatures",
    58: "Envelope",
    59: "FetchSnapshot",
    60: "DescribeCluster",
    61: "DescribeProducers",
    62: "BrokerRegistration",
    63: "BrokerHeartbeat",
    64: "UnregisterBroker",
    65: "DescribeTransactions",
    66: "ListTransactions",
    67: "AllocateProducerIds",
    74: "ListConfigResources",
    75: "DescribeTopicPartitions",
    80: "AddRaftVoter",
}


def decode_request(key: int, version: int, body: Buffer) -> Any:
    """The request after its head; `BadFrame` if it is malformed or of an unknown version."""
    return _request_reader(key, version)(Reader(body))


def encode_response(key: int, version: int, response: Mapping[str, Any]) -> bytes:
    """The response without its head; `ValueError` names the invalid field."""
    writer = Writer()
    try:
        _response_writer(key, version)(writer, response)
    except ValueError as error:
        raise ValueError(f"{NAMES.get(key)} response v{version}: {error}") from error
    return writer.finish()


def decode_response(key: int, version: int, body: Buffer) -> Any:
    """For tests, and for a broker that is a client of another one."""
    return _reader(_schema(key, "Response"), version)(Reader(body))


def encode_request(key: int, version: int, request: Mapping[str, Any]) -> bytes:
    writer = Writer()
    _writer(_schema(key, "Request"), version)(writer, request)
    return writer.finish()


# The caches hold only existing pairs of key and version, so clients cannot make them grow.


@cache
def _request_reader(key: int, version: int) -> ReadFunction:
    schema = _schema(key, "Request") if key in NAMES else None
    if schema is None or version not in schema.versions:
        raise BadFrame(f"API key {key} has no version {version}")
    return _reader(schema, version)


@cache
def _response_writer(key: int, version: int) -> WriteFunction:
    schema = _schema(key, "Response")
    if version not in schema.versions:
        raise ValueError(f"version {version} does not exist")
    return _writer(schema, version)


@cache
def _schema(key: int, kind: str) -> Schema:
    from mqcore.wire.schemas import load_schema

    return load_schema(NAMES[key] + kind)


def _reader(schema: Schema, version: int) -> ReadFunction:
    from mqcore.wire.schema_codecs import compile_reader

    return compile_reader(schema, version)


def _writer(schema: Schema, version: int) -> WriteFunction:
    from mqcore.wire.schema_codecs import compile_writer

    return compile_writer(schema, version)
