"""Reading schema files: the ones of this project, and places where Kafka's files are irregular."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from mqcore.wire import schemas
from mqcore.wire.primitives import Reader, Writer
from mqcore.wire.schema_codecs import compile_reader, compile_writer
from mqcore.wire.schemas import OWN_FILES, Schema, load_schema


@pytest.fixture
def load(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Any:
    """Loads a schema with the given fields."""

    def load_fields(*fields: dict[str, Any]) -> Schema:
        source = {"apiKey": 7, "name": "Thing", "validVersions": "0", "flexibleVersions": "0+", "fields": fields}
        (tmp_path / "Thing.json").write_text(json.dumps(source))
        monkeypatch.setattr(schemas, "OWN_FILES", tmp_path)
        return load_schema("Thing")

    return load_fields


def encoded(schema: Schema, **values: Any) -> bytes:
    writer = Writer()
    compile_writer(schema, 0)(writer, values)
    return writer.finish()


def decoded(schema: Schema, data: bytes) -> Any:
    return compile_reader(schema, 0)(Reader(data))


@pytest.mark.parametrize("path", sorted(OWN_FILES.glob("*.json")), ids=lambda path: path.stem)
def test_every_own_schema_is_read_in_all_its_versions(path: Path) -> None:
    schema = load_schema(path.stem)
    for version in range(schema.versions.first, schema.versions.last + 1):
        writer = Writer()
        compile_writer(schema, version)(writer, {})
        compile_reader(schema, version)(Reader(writer.finish()))


def test_an_own_schema_is_read_although_kafka_python_has_none() -> None:
    assert load_schema("BrokerHeartbeatRequest").number == 63


def test_a_tagged_field_without_versions_exists_where_it_is_tagged(load: Any) -> None:
    schema = load({"name": "Next", "type": "int64", "taggedVersions": "0+", "tag": 1, "default": "-1"})
    assert decoded(schema, encoded(schema, next=5)).next == 5
    assert decoded(schema, encoded(schema)).next == -1


def test_a_struct_whose_default_is_null_is_absent_by_default(load: Any) -> None:
    inner = {"name": "Size", "type": "int32", "versions": "0+"}
    head = {"name": "Meta", "type": "Meta", "versions": "0+", "nullableVersions": "0+", "default": None}
    schema = load({**head, "taggedVersions": "0+", "tag": 0, "fields": [inner]})
    assert decoded(schema, encoded(schema)).meta is None
    assert decoded(schema, encoded(schema, meta={"size": 3})).meta.size == 3


def test_an_empty_list_is_written_where_the_default_is_null(load: Any) -> None:
    """In a partition change an empty list ends the adding of replicas, and null changes nothing."""
    schema = load({"name": "Adding", "type": "[]int32", "versions": "0+", "nullableVersions": "0+",
                   "taggedVersions": "0+", "tag": 4, "default": "null"})  # fmt: skip
    assert decoded(schema, encoded(schema)).adding is None
    assert decoded(schema, encoded(schema, adding=[])).adding == []


def test_an_empty_list_is_left_out_where_it_is_the_default(load: Any) -> None:
    schema = load({"name": "Folders", "type": "[]int32", "versions": "0+", "taggedVersions": "0+", "tag": 0})
    assert encoded(schema, folders=[]) == encoded(schema, folders=()) == encoded(schema) == b"\0"
