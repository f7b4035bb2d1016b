"""Codec: the control records of the metadata log and of its snapshots, in Kafka's schemas.

A control record's key is its version and its type. Types other than these four are skipped by readers.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Final, NamedTuple

from mqcore.identity import NO_TOPIC_ID as NO_DIRECTORY
from mqcore.identity import BrokerId
from mqcore.raft.messages import VoterKey, VoterSet, voter_set
from mqcore.wire.batches import CONTROL, BadBatch, BatchHeader, Buffer
from mqcore.wire.frames import BadFrame
from mqcore.wire.primitives import Reader, Writer
from mqcore.wire.records import Record, build_batch, read_records

LEADER_CHANGE: Final = 2
SNAPSHOT_HEADER: Final = 3
SNAPSHOT_FOOTER: Final = 4
VOTERS: Final = 6

_KRAFT_VERSION: Final = 0


class ControlRecord(NamedTuple):
    type: int
    value: bytes
    offset: int


def control_batch(record_type: int, value: bytes, offset: int, epoch: int, now_ms: int) -> bytearray:
    key = Writer()
    key.int16(0)
    key.int16(record_type)
    record = Record(offset, now_ms, key.finish(), value)
    return build_batch([record], leader_epoch=epoch, attributes=CONTROL)


def read_control_records(batch: Buffer, header: BatchHeader) -> Iterator[ControlRecord]:
    for record in read_records(batch, header):
        try:
            key = Reader(record.key or b"")
            key.int16()
            yield ControlRecord(key.int16(), record.value or b"", record.offset)
        except BadFrame as error:
            raise BadBatch(f"the control record at offset {record.offset} has a malformed key") from error


def leader_change(leader: BrokerId, voters: Iterable[VoterKey], granted: Iterable[VoterKey]) -> bytes:
    """LeaderChangeMessage version 0. Version 1 adds directory ids, but Kafka's tools read every one as version 0."""
    out = Writer()
    out.int16(0)
    out.int32(leader)
    for keys in (voters, granted):
        out.compact_array(list(keys), lambda key: _put_key(out, key))
    out.no_tags()
    return out.finish()


def _put_key(out: Writer, key: VoterKey) -> None:
    out.int32(key.id)
    out.no_tags()


def encode_voters(voters: VoterSet) -> bytes:
    """VotersRecord version 0. Addresses are part of the configuration here, so the record has none."""
    out = Writer()
    out.int16(0)
    out.compact_array(list(voters.values()), lambda key: _put_voter(out, key))
    out.no_tags()
    return out.finish()


def _put_voter(out: Writer, key: VoterKey) -> None:
    out.int32(key.id)
    out.uuid(key.directory)
    out.compact_array([], lambda endpoint: None)
    out.int16(_KRAFT_VERSION)
    out.int16(_KRAFT_VERSION)
    out.no_tags()  # of the supported kraft.version
    out.no_tags()


def decode_voters(value: bytes) -> VoterSet:
    """Raises `BadBatch` if the record is malformed or in a version that this code does not read."""
    source = Reader(value)
    try:
        version = source.int16()
        if version != 0:
            raise BadBatch(f"a voters record has version {version}, expected 0")
        return voter_set(source.compact_array(lambda: _voter(source)))
    except BadFrame as error:
        raise BadBatch(f"malformed voters record: {error}") from error


def _voter(source: Reader) -> VoterKey:
    key = VoterKey(BrokerId(source.int32()), source.uuid() or NO_DIRECTORY)
    source.compact_array(lambda: _skip_endpoint(source))
    source.int16()
    source.int16()
    source.skip_tags()
    source.skip_tags()
    return key


def _skip_endpoint(source: Reader) -> None:
    source.compact_string()
    source.compact_string()
    source.int16()
    source.skip_tags()


def snapshot_header(now_ms: int) -> bytes:
    """SnapshotHeaderRecord version 0."""
    out = Writer()
    out.int16(0)
    out.int64(now_ms)
    out.no_tags()
    return out.finish()


def snapshot_footer() -> bytes:
    """SnapshotFooterRecord version 0."""
    out = Writer()
    out.int16(0)
    out.no_tags()
    return out.finish()
