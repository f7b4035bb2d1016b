"""Codec: Kafka's schemas of messages and metadata records, as JSON files in the notation of Kafka's source.

kafka-python contains the schemas of what clients use (`kafka/protocol/schemas/resources`). They are read as data,
without importing that package. The schemas of what only brokers and controllers use are in `schema_files`. Each file is
read when it is first used; `schema_codecs` makes readers and writers from it.
https://kafka.apache.org/protocol, KIP-482.
"""

from __future__ import annotations

import json
import re
from collections import namedtuple
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cache
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Final, NamedTuple

from mqcore.wire.frames import NEVER

OWN_FILES: Final = Path(__file__).parent / "schema_files"

_DEFAULTS: Final[dict[str, Any]] = {"string": "", "bytes": b"", "uuid": None, "float64": 0.0, "bool": False}


@dataclass(frozen=True, slots=True)
class Versions:
    """A range of versions, both ends included; empty if `last` is below `first`."""

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

    @property
    def is_empty(self) -> bool:
        return self.last < self.first


class Field(NamedTuple):
    name: str
    kind: str  # of one element if the field is an array; "struct" for structs
    struct_name: str  # "" if the field has no fields of its own
    is_array: bool
    fields: tuple[Field, ...]
    make: Callable[..., Any]  # builds a struct from the list of its values
    versions: Versions
    nullable: Versions
    tagged: Versions
    tag: int
    default: Any


class Schema(NamedTuple):
    """One request, response or record in all its versions. `number`: its API key, or the type of the record."""

    number: int
    versions: Versions
    flexible: Versions
    body: Field


def load_schema(name: str) -> Schema:
    """The schema called `name`, for example "MetadataRequest"."""
    own = OWN_FILES / f"{name}.json"
    text = (own if own.exists() else _folder() / own.name).read_text(encoding="utf-8")
    source = json.loads(re.sub(r"(?m)^\s*//.*$", "", text))
    common = {struct["name"]: struct["fields"] for struct in source.get("commonStructs", ())}
    body = _parse_field({**source, "type": name, "versions": "0+"}, common, _generated_classes(name))
    versions, flexible = Versions.parse(source["validVersions"]), Versions.parse(source["flexibleVersions"])
    return Schema(source.get("apiKey", -1), versions, flexible, body)


def snake_case(name: str) -> str:
    return re.sub(r"(?<!^)(?=[A-Z])", "_", name).lower()


@cache
def _folder() -> Path:
    spec = find_spec("kafka")  # finds the package without importing it, which would take 0.3 s
    assert spec is not None and spec.submodule_search_locations, "kafka-python is a dependency"
    return Path(spec.submodule_search_locations[0]) / "protocol" / "schemas" / "resources"


def _generated_classes(name: str) -> Mapping[str, Any]:
    """The classes of `mqcore.wire.requests` for a request that the broker serves; otherwise an empty mapping."""
    module = f"mqcore.wire.requests.{snake_case(name.removesuffix('Request'))}"
    return vars(import_module(module)) if name.endswith("Request") and find_spec(module) is not None else {}


def _parse_field(source: Mapping[str, Any], common: Mapping[str, Any], classes: Mapping[str, Any]) -> Field:
    type_name = source["type"].removeprefix("[]")
    is_array = type_name != source["type"]
    is_struct = type_name[0].isupper()
    kind = "struct" if is_struct else "bytes" if type_name == "records" else type_name
    inner = source.get("fields", common.get(type_name, ()))
    fields = tuple(_parse_field(field, common, classes) for field in inner)
    make = _struct_maker(type_name, tuple(field.name for field in fields), classes) if is_struct else tuple
    return Field(
        name=snake_case(source["name"]),
        kind=kind,
        struct_name=type_name if is_struct else "",
        is_array=is_array,
        fields=fields,
        make=make,
        versions=Versions.parse(source.get("versions", source.get("taggedVersions"))),
        nullable=Versions.parse(source.get("nullableVersions")),
        tagged=Versions.parse(source.get("taggedVersions")),
        tag=source.get("tag", -1),
        default=_default(kind, is_array, source.get("default", ""), fields, make),
    )


def _struct_maker(name: str, field_names: tuple[str, ...], classes: Mapping[str, Any]) -> Callable[..., Any]:
    generated = classes.get(name)
    if generated is not None and generated._fields == field_names:  # a stale class must not mix up the fields
        return generated._make  # type: ignore[no-any-return]
    make_class: Callable[..., Any] = namedtuple  # mypy wants literal names, but these come from the schema
    return make_class(name, field_names)._make  # type: ignore[no-any-return]


def _default(kind: str, is_array: bool, text: Any, fields: tuple[Field, ...], make: Callable[..., Any]) -> Any:
    """The value of an absent field. Arrays default to a tuple, because all messages share the value.

    Kafka's files write a null default as a string and, for a few structs, as a JSON null.
    """
    if text is None or text == "null":
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
