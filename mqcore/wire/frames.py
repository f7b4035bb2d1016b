"""Codec: the heads of requests and responses, and the exception for malformed frames.

A frame is the bytes after its int32 length. The connection has checked that length against a limit before it allocated
memory for them. Request head v1 is `api_key int16, version int16, correlation_id int32, client_id nullable string`;
v2 adds tagged fields (KIP-482) and is used by every *flexible* version of a request. The client id stays an
old-style string in both. Responses mirror it, except ApiVersions, whose response head is always v0,
because the client does not know yet what the broker supports (KIP-511).

Own rule: a number from the wire is compared with the bytes at hand before it is used.
"""

from __future__ import annotations

import struct
from typing import Final, NamedTuple

from mqcore.wire.batches import Buffer

API_VERSIONS: Final = 18
TAGS_MAX: Final = 64

STRING_BYTES_MAX: Final = 0x7FFF
"""As in Kafka: the length field of older versions ends here, and compact strings are held to the same limit."""

NEVER: Final = 1 << 15  # no version is flexible

# Api key → first flexible version of the request (and of its response).
FLEXIBLE_FROM: Final[dict[int, int]] = {
    0: 9,  # Produce
    1: 12,  # Fetch
    2: 6,  # ListOffsets
    3: 9,  # Metadata
    8: 8,  # OffsetCommit
    9: 6,  # OffsetFetch
    10: 3,  # FindCoordinator
    11: 6,  # JoinGroup
    12: 4,  # Heartbeat
    13: 4,  # LeaveGroup
    14: 4,  # SyncGroup
    15: 5,  # DescribeGroups
    16: 3,  # ListGroups
    17: NEVER,  # SaslHandshake
    18: 3,  # ApiVersions
    19: 5,  # CreateTopics
    20: 4,  # DeleteTopics
    21: 2,  # DeleteRecords
    22: 2,  # InitProducerId
    23: 4,  # OffsetForLeaderEpoch
    24: 3,  # AddPartitionsToTxn
    25: 3,  # AddOffsetsToTxn
    26: 3,  # EndTxn
    27: 1,  # WriteTxnMarkers
    28: 3,  # TxnOffsetCommit
    29: 2,  # DescribeAcls
    30: 2,  # CreateAcls
    31: 2,  # DeleteAcls
    32: 4,  # DescribeConfigs
    33: 2,  # AlterConfigs
    34: 2,  # AlterReplicaLogDirs
    35: 2,  # DescribeLogDirs
    36: 2,  # SaslAuthenticate
    37: 2,  # CreatePartitions
    38: 2,  # CreateDelegationToken
    39: 2,  # RenewDelegationToken
    40: 2,  # ExpireDelegationToken
    41: 2,  # DescribeDelegationToken
    42: 2,  # DeleteGroups
    43: 2,  # ElectLeaders
    44: 1,  # IncrementalAlterConfigs
    45: 0,  # AlterPartitionReassignments
    46: 0,  # ListPartitionReassignments
    47: NEVER,  # OffsetDelete
    48: 1,  # DescribeClientQuotas
    49: 1,  # AlterClientQuotas
    50: 0,  # DescribeUserScramCredentials
    51: 0,  # AlterUserScramCredentials
    52: 0,  # Vote
    53: 1,  # BeginQuorumEpoch
    54: 1,  # EndQuorumEpoch
    55: 0,  # DescribeQuorum
    56: 0,  # AlterPartition
    57: 0,  # UpdateFeatures
    58: 0,  # Envelope
    59: 0,  # FetchSnapshot
    60: 0,  # DescribeCluster
    61: 0,  # DescribeProducers
    62: 0,  # BrokerRegistration
    63: 0,  # BrokerHeartbeat
    64: 0,  # UnregisterBroker
    65: 0,  # DescribeTransactions
    66: 0,  # ListTransactions
    67: 0,  # AllocateProducerIds
    68: 0,  # ConsumerGroupHeartbeat
    69: 0,  # ConsumerGroupDescribe
    70: 0,  # ControllerRegistration
    71: 0,  # GetTelemetrySubscriptions
    72: 0,  # PushTelemetry
    73: 0,  # AssignReplicasToDirs
    74: 0,  # ListConfigResources
    75: 0,  # DescribeTopicPartitions
    76: 0,  # ShareGroupHeartbeat
    77: 0,  # ShareGroupDescribe
    78: 0,  # ShareFetch
    79: 0,  # ShareAcknowledge
    80: 0,  # AddRaftVoter
    81: 0,  # RemoveRaftVoter
    82: 0,  # UpdateRaftVoter
}

_FIXED = struct.Struct(">hhih")
_CORRELATION_ID = struct.Struct(">i")


class BadFrame(ValueError):
    """The bytes are not a valid message; the message of the exception says what is wrong."""


class RequestHead(NamedTuple):
    api_key: int
    version: int
    correlation_id: int
    client_id: str  # "" if the client sent none
    body_start: int


def is_flexible(api_key: int, version: int) -> bool:
    return version >= FLEXIBLE_FROM.get(api_key, NEVER)


def read_head(frame: Buffer) -> RequestHead:
    """The head of a request; `BadFrame` if it is malformed. The API key and the version may still be unknown."""
    try:
        api_key, version, correlation_id, client_id_length = _FIXED.unpack_from(frame)
    except struct.error as error:
        raise BadFrame(f"{len(frame)} bytes are too few for a request head") from error
    position = _FIXED.size
    client_id = ""
    if client_id_length > 0:
        end = position + client_id_length
        if end > len(frame):
            raise BadFrame("client id runs over the end of the frame")
        try:
            client_id = str(frame[position:end], "utf-8")
        except UnicodeDecodeError as error:
            raise BadFrame("client id is not UTF-8") from error
        position = end
    elif client_id_length < -1:
        raise BadFrame(f"client id has the invalid length {client_id_length}")
    if version >= FLEXIBLE_FROM.get(api_key, NEVER):
        position = skip_tags(frame, position)
    return RequestHead(api_key, version, correlation_id, client_id, position)


def request_head(api_key: int, version: int, correlation_id: int, client_id: str) -> bytes:
    name = client_id.encode()
    tags = b"\0" if is_flexible(api_key, version) else b""
    return _FIXED.pack(api_key, version, correlation_id, len(name)) + name + tags


def response_body_start(api_key: int, version: int) -> int:
    """Where the body of a response of this broker's begins. Not for ApiVersions."""
    return _CORRELATION_ID.size + is_flexible(api_key, version)


def response_head(correlation_id: int, flexible: bool) -> bytes:
    """The head of a response; `flexible` must be False for every version of ApiVersions."""
    head = _CORRELATION_ID.pack(correlation_id)
    return head + b"\x00" if flexible else head


def read_uvarint(data: Buffer, position: int) -> tuple[int, int]:
    """(value, next position) of an unsigned varint of at most 32 bits."""
    value = shift = 0
    try:
        while True:
            byte = data[position]
            position += 1
            value |= (byte & 0x7F) << shift
            if byte < 0x80:
                break
            shift += 7
            if shift > 28:
                raise BadFrame("varint is longer than 5 bytes")
    except IndexError:
        raise BadFrame("varint runs over the end") from None
    if value > 0xFFFFFFFF:
        raise BadFrame("varint is larger than 32 bits")
    return value, position


def skip_tags(data: Buffer, position: int) -> int:
    """The position after a section of tagged fields, which are ignored."""
    if position < len(data) and data[position] == 0:  # the usual case
        return position + 1
    count, position = read_uvarint(data, position)
    if count > TAGS_MAX:
        raise BadFrame(f"{count} tagged fields, the limit is {TAGS_MAX}")
    for _ in range(count):
        _, position = read_uvarint(data, position)
        length, position = read_uvarint(data, position)
        position += length
        if position > len(data):
            raise BadFrame("tagged field runs over the end")
    return position
