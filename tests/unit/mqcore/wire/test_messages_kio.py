"""Every message in every version, encoded and decoded like kio, which others generate from the same schemas."""

from __future__ import annotations

import dataclasses
import datetime
import io
from collections.abc import Mapping
from typing import Any

import pytest
from hypothesis import given, settings
from kio.index import load_request_schema, load_response_schema
from kio.serial import entity_reader, entity_writer

from mqcore.wire.primitives import Reader, Writer
from mqcore.wire.schema_codecs import compile_reader, compile_writer
from tests.unit.mqcore.wire.message_values import all_messages, mappings, name_of, schema_of

OWN_FIELDS = {
    (35, "include_offsets"),
    (35, "log_end_offset"),
    (35, "high_watermark"),
    (56, "controller_epoch"),
    (58, "committed_end"),
}
"""Tagged fields that Kafka's schemas do not have, with the API key of their message."""

EPOCH = datetime.datetime(1970, 1, 1, tzinfo=datetime.UTC)


def kio_class(key: int, kind: str, version: int) -> Any:
    return (load_request_schema if kind == "Request" else load_response_schema)(key, version)


def plain(value: Any) -> Any:
    """Converts a value of kio into one of ours."""
    if isinstance(value, datetime.timedelta):
        return round(value / datetime.timedelta(milliseconds=1))
    if isinstance(value, datetime.datetime):
        return round((value - EPOCH) / datetime.timedelta(milliseconds=1))
    return value


def without_own_fields(key: int, value: Any) -> Any:
    if isinstance(value, list):
        return [without_own_fields(key, each) for each in value]
    if isinstance(value, dict):
        return {name: without_own_fields(key, each) for name, each in value.items() if (key, name) not in OWN_FIELDS}
    return value


def assert_same(ours: Any, theirs: Any) -> None:
    """Every field of kio has the same value as ours."""
    if isinstance(theirs, tuple):
        assert len(ours) == len(theirs)
        for our, their in zip(ours, theirs, strict=True):
            assert_same(our, their)
    elif dataclasses.is_dataclass(theirs):
        for field in dataclasses.fields(theirs):
            mine = field.name if hasattr(ours, field.name) else field.name + "_ms"
            assert_same(getattr(ours, mine), getattr(theirs, field.name))
    else:
        assert plain(theirs) == ours


@pytest.mark.parametrize("message", all_messages(), ids=name_of)
def test_kio_encodes_and_decodes_every_message_alike(message: tuple[int, str, int]) -> None:
    key, kind, version = message
    schema = schema_of(key, kind)
    read, write = compile_reader(schema, version), compile_writer(schema, version)
    their_class = kio_class(key, kind, version)
    their_read, their_write = entity_reader(their_class), entity_writer(their_class)

    @settings(max_examples=6, deadline=None, database=None)
    @given(mappings(key, kind, version))
    def check(mapping: Mapping[str, Any]) -> None:
        writer = Writer()
        write(writer, without_own_fields(key, mapping))
        encoded = writer.finish()
        theirs, size = their_read(encoded, 0)
        assert size == len(encoded)
        again = io.BytesIO()
        their_write(again, theirs)
        assert again.getvalue() == encoded
        reader = Reader(encoded)
        assert_same(read(reader), theirs)
        assert reader.remaining == 0

    check()
