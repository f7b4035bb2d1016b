"""The fuzz targets: one for each family of decoders, with seeds to start from.

A target takes any bytes and returns. It catches the exceptions that its decoders promise; any other exception is a
finding. `python -m tests.fuzz NAME` runs one target for long; the unit tests run each one briefly.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from itertools import islice
from typing import Any
from uuid import UUID

from mqcore.controller import records as metadata_records
from mqcore.controller.facts import (
    BrokerRegistered,
    ConfigChanged,
    Endpoint,
    MetadataFact,
    PartitionChanged,
    PartitionCreated,
    ResourceType,
    TopicCreated,
)
from mqcore.groups import records as group_records
from mqcore.groups.facts import CommittedOffset, GenerationAssigned, OffsetCommitted, StoredMember
from mqcore.groups.subscription import parse_topics
from mqcore.identity import BrokerId, LeaderEpoch, Millis, Offset
from mqcore.wire.batches import BadBatch, check_crc, read_headers
from mqcore.wire.compression import NAMES as CODECS
from mqcore.wire.compression import compress, decompress
from mqcore.wire.fetch import decode_fetch
from mqcore.wire.frames import BadFrame, read_head
from mqcore.wire.messages import NAMES, decode_request, encode_request
from mqcore.wire.produce import decode_produce
from mqcore.wire.records import Record, build_batch, iterate_records
from mqcore.wire.schemas import Field, load_schema

EXPANDED_LIMIT = 100_000
ID = UUID("11111111-2222-3333-4444-555555555555")


@dataclass(frozen=True)
class Target:
    run: Callable[[bytes], None]
    seeds: Callable[[], list[bytes]]


# Heads


def heads(data: bytes) -> None:
    try:
        head = read_head(memoryview(data))
    except BadFrame:
        return
    assert head.body_start <= len(data)


def head_seeds() -> list[bytes]:
    plain = b"\x00\x03\x00\x01\x00\x00\x00\x07\x00\x04kcat"
    return [plain, b"\x00\x12\x00\x03" + plain[4:] + b"\x00", b"\x00\x12\x00\x03" + plain[4:] + b"\x01\x05\x02ab"]


# Messages with schemas: two bytes choose the message


COLD = [
    (key, version)
    for key, name in NAMES.items()
    for versions in [load_schema(name + "Request").versions]
    for version in range(versions.first, versions.last + 1)
]


def cold_messages(data: bytes) -> None:
    if len(data) < 2:
        return
    key, version = COLD[int.from_bytes(data[:2]) % len(COLD)]
    try:
        decode_request(key, version, memoryview(data)[2:])
    except BadFrame:
        pass


def cold_seeds() -> list[bytes]:
    return [
        index.to_bytes(2) + encode_request(key, version, example(load_schema(NAMES[key] + "Request").body, version))
        for index, (key, version) in enumerate(COLD)
    ]


def example(field: Field, version: int) -> dict[str, Any]:
    """A message with a value in every field."""
    values: dict[str, Any] = {"bool": True, "string": "orders", "bytes": b"\x00\x01abc", "uuid": ID, "float64": 0.5}
    filled = {}
    for each in field.fields:
        if version in each.versions:
            value = example(each, version) if each.kind == "struct" else values.get(each.kind, 1)
            filled[each.name] = [value, value] if each.is_array else value
    return filled


# Produce and Fetch: one byte chooses the version


def produce(data: bytes) -> None:
    if not data:
        return
    frame = memoryview(data)
    try:
        request = decode_produce(data[0] % 14, frame, 1)
    except BadFrame:
        return
    held = sum(len(records) for _, _, partitions in request.topics for _, records in partitions)
    assert held <= len(data)


def fetch(data: bytes) -> None:
    if not data:
        return
    try:
        decode_fetch(4 + data[0] % 15, memoryview(data), 1)
    except BadFrame:
        pass


def hot_seeds(key: int, first: int, offset: int) -> Callable[[], list[bytes]]:
    def seeds() -> list[bytes]:
        schema = load_schema(NAMES[key] + "Request")
        return [
            bytes((version - offset,)) + encode_request(key, version, example(schema.body, version))
            for version in range(first, schema.versions.last + 1)
        ]

    return seeds


# Batches and their records


def batches(data: bytes) -> None:
    try:
        for position, header in read_headers(data):
            batch = memoryview(data)[position : position + header.size]
            for record in islice(iterate_records(batch, header, limit_bytes=EXPANDED_LIMIT), 1000):
                assert header.base_offset <= record.offset <= header.last_offset
            check_crc(data, header, position)
    except BadBatch:
        pass


def batch_seeds() -> list[bytes]:
    records = [Record(5, 1_700_000_000_000, b"key", b"value" * 9, (("h", b"v"), ("n", None))), Record(6, 0, None, None)]
    seeds = [bytes(build_batch(records, codec=codec, producer_id=3, base_sequence=1)) for codec in CODECS]
    return [*seeds, seeds[0] + seeds[1]]


def compressed(data: bytes) -> None:
    if not data:
        return
    try:
        assert len(decompress(data[0] % 8, data[1:], EXPANDED_LIMIT)) <= EXPANDED_LIMIT
    except BadBatch:
        pass


def compressed_seeds() -> list[bytes]:
    return [bytes((codec,)) + compress(codec, text) for codec in CODECS for text in (b"", b"abc" * 99, bytes(70_000))]


# Records of internal topics: one byte says where the key ends


def internal_records(data: bytes) -> None:
    key, value = data[1 : 1 + data[0]] if data else b"", data[1 + data[0] :] if data else b""
    for read in (
        lambda: group_records.decode(key, value),
        lambda: group_records.decode(key, None),
        lambda: metadata_records.decode(value),
        lambda: parse_topics(value),
    ):
        try:
            read()
        except (BadFrame, group_records.BadRecord):
            pass


def internal_seeds() -> list[bytes]:
    one, epoch = BrokerId(1), LeaderEpoch(0)
    facts: list[MetadataFact] = [
        BrokerRegistered(one, ID, 1, (Endpoint("PLAINTEXT", "localhost", 9092),), "rack"),
        TopicCreated("orders", ID),
        PartitionCreated(ID, 0, (one,), (one,), one, epoch, 0),
        PartitionChanged(ID, 0, one, (one,)),
        ConfigChanged(ResourceType.TOPIC, "orders", "retention.ms", "5"),
    ]
    member = StoredMember("m", "i", "client", "host", 1, 2, b"\x00\x00\x00\x00\x00\x01\x00\x01t", b"a")
    pairs: list[tuple[bytes | None, bytes | None]] = [metadata_records.encode(fact) for fact in facts]
    committed = OffsetCommitted("orders", 0, CommittedOffset(Offset(5), metadata="here"))
    for fact in (committed, GenerationAssigned(1, "consumer", "range", "m", (member,), Millis(5))):
        pair = group_records.encode("group", fact)
        assert pair is not None
        pairs.append(pair)
    return [bytes((len(key or b""),)) + (key or b"") + (value or b"") for key, value in pairs]


TARGETS = {
    "heads": Target(heads, head_seeds),
    "cold_messages": Target(cold_messages, cold_seeds),
    "produce": Target(produce, hot_seeds(0, 3, 0)),
    "fetch": Target(fetch, hot_seeds(1, 4, 4)),
    "batches": Target(batches, batch_seeds),
    "compressed": Target(compressed, compressed_seeds),
    "internal_records": Target(internal_records, internal_seeds),
}
