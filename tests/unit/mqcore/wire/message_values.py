"""Random messages for a schema, which hypothesis passes to our codecs and to those of other libraries."""

from __future__ import annotations

from functools import cache
from typing import Any

from hypothesis import strategies as st

from mqcore.wire.messages import NAMES
from mqcore.wire.schemas import Field, Schema, load_schema

_TEXT = st.text(st.characters(codec="utf-8", exclude_characters="\0"), max_size=9) | st.just("x" * 200)
_KINDS: dict[str, st.SearchStrategy[Any]] = {
    "int8": st.integers(-(2**7), 2**7 - 1),
    "int16": st.integers(-(2**15), 2**15 - 1),
    "uint16": st.integers(0, 2**16 - 1),
    "int32": st.integers(-(2**31), 2**31 - 1),
    "uint32": st.integers(0, 2**32 - 1),
    "int64": st.integers(-(2**63), 2**63 - 1),
    "bool": st.booleans(),
    "float64": st.floats(allow_nan=False, allow_infinity=False),
    "uuid": st.uuids(),
    "string": _TEXT,
    "bytes": st.binary(max_size=9) | st.just(b"\xff" * 200),
}
_MILLISECONDS = st.integers(0, 2**31 - 1)  # kio represents times as datetime and timedelta, which have a smaller range
_ERROR_CODES = st.integers(-1, 60)


@cache
def schema_of(key: int, kind: str) -> Schema:
    return load_schema(NAMES[key] + kind)


def all_messages() -> list[tuple[int, str, int]]:
    """(API key, "Request" or "Response", version) of every message with a schema."""
    found = []
    for key in NAMES:
        for kind in ("Request", "Response"):
            versions = schema_of(key, kind).versions
            found += [(key, kind, version) for version in range(versions.first, versions.last + 1)]
    return found


def name_of(message: tuple[int, str, int]) -> str:
    key, kind, version = message
    return f"{NAMES[key]}{kind}-v{version}"


@cache
def mappings(key: int, kind: str, version: int) -> st.SearchStrategy[dict[str, Any]]:
    """A value that a handler could return for one message."""
    return _struct(schema_of(key, kind).body, version)


def _struct(field: Field, version: int) -> st.SearchStrategy[dict[str, Any]]:
    return st.fixed_dictionaries(
        {each.name: _value(each, version) for each in field.fields if version in each.versions}
    )


def _value(field: Field, version: int) -> st.SearchStrategy[Any]:
    value = _one(field, version)
    if field.is_array:
        value = st.lists(value, max_size=3)
    if version in field.nullable:
        value = st.none() | value
    return value


def _one(field: Field, version: int) -> st.SearchStrategy[Any]:
    if field.kind == "struct":
        return _struct(field, version)
    if field.name.endswith("error_code"):
        return _ERROR_CODES
    if field.kind in ("int32", "int64") and (field.name.endswith("_ms") or "timestamp" in field.name):
        return _MILLISECONDS
    return _KINDS[field.kind]
