"""Codec: Kafka's message schemas, read from the JSON files of Kafka's own source as kafka-python ships them.

They are data (`kafka/protocol/schemas/resources`), read without importing that package, one file when its message is
first used. `schema_codecs` makes readers and writers of them. https://kafka.apache.org/protocol, KIP-482 (tags).
"""

from __future__ import annotations

import json
import re
from collections import namedtuple
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cache
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Final

from mqcore.wire.frames import NEVER

_DEFAULTS: Final[dict[str, Any]] = {"string": "", "bytes": b"", "uuid": None, "float64": 0.0, "bool": False}


@dataclass(frozen=True, slots=True)
class Versions:
    first: int
    last: int

    @classmethod
    def parse(cls, text: str | None) -> Versions:
        if not text or text == "none":
            return cls(1, 0)
        if text.endswith("+"):
            return cls(int(text[:-1]), NEVER - 1)
        first, _, last = text.partition("-")
        return cls(int(first), int(last or first))

    def __contains__(self, version: int) -> bool:
        return self.first <= version <= self.last


@dataclass(frozen=True, slots=True)
class Field:
    name: str
    kind: str  # of one element, if it is an array; "struct" for structs
    is_array: bool
    fields: tuple[Field, ...]
    make: Callable[..., Any]  # builds a struct's value
    versions: Versions
    nullable: Versions
    tagged: Versions
    tag: int
    default: Any


@dataclass(frozen=True, slots=True)
class Schema:
    """One request or response in all its versions."""

    versions: Versions
    flexible: Versions
    body: Field


def load_schema(name: str) -> Schema:
    """The schema called `name`, as in "MetadataRequest"."""
    text = (_folder() / f"{name}.json").read_text(encoding="utf-8")
    source = json.loads(re.sub(r"(?m)^\s*//.*$", "", text))
    common = {struct["name"]: struct["fields"] for struct in source.get("commonStructs", ())}
    body = _parse_field({**source, "type": name, "versions": "0+"}, common)
    return Schema(Versions.parse(source["validVersions"]), Versions.parse(source["flexibleVersions"]), body)


@cache
def _folder() -> Path:
    spec = find_spec("kafka")  # finds the package without running it: importing it costs 0.3 s
    assert spec is not None and spec.submodule_search_locations, "kafka-python is a dependency"
    return Path(spec.submodule_search_locations[0]) / "protocol" / "schemas" / "resources"


def _parse_field(source: Mapping[str, Any], common: Mapping[str, Any]) -> Field:
    kind = source["type"].removeprefix("[]")
    is_array = kind != source["type"]
    inner = source.get("fields", common.get(kind, ()))
    fields = tuple(_parse_field(field, common) for field in inner)
    kind = "struct" if kind[0].isupper() else "bytes" if kind == "records" else kind
    make: Callable[..., Any] = tuple
    if inner:
        value_type: Callable[..., Any] = namedtuple  # mypy wants literal names, these come from the schema
        make = value_type(source["type"].removeprefix("[]"), [field.name for field in fields])._make
    return Field(
        name=re.sub(r"(?<!^)(?=[A-Z])", "_", source["name"]).lower(),
        kind=kind,
        is_array=is_array,
        fields=fields,
        make=make,
        versions=Versions.parse(source["versions"]),
        nullable=Versions.parse(source.get("nullableVersions")),
        tagged=Versions.parse(source.get("taggedVersions")),
        tag=source.get("tag", -1),
        default=_default(kind, is_array, source.get("default"), fields, make),
    )


def _default(kind: str, is_array: bool, text: Any, fields: tuple[Field, ...], make: Callable[..., Any]) -> Any:
    """What a field holds that is not there. Arrays default to an empty tuple: nobody can change it for everybody."""
    if text == "null":
        return None
    if is_array:
        return ()
    if kind == "struct":
        return make([field.default for field in fields])
    if not text and text != 0:
        return _DEFAULTS.get(kind, 0)
    if kind == "bool":
        return str(text).lower() == "true"
    return text if kind == "string" else int(str(text), 0)
