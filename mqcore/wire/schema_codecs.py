"""Codec: compile a schema and a version into one reader and one writer.

What a version determines (its fields, compact or not, nullable or not, tagged or not) is decided once, when it is
compiled, and not for every message.

A decoded message is a named tuple of the fields of all versions; those absent in this version hold their defaults. A
message to encode is a mapping: fields that the version lacks are left out, missing ones take their defaults, and a
name that no version has is an error.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final

from mqcore.wire.frames import TAGS_MAX, BadFrame
from mqcore.wire.primitives import Reader, Writer
from mqcore.wire.schemas import Field, Schema

ReadFunction = Callable[[Reader], Any]
WriteFunction = Callable[[Writer, Any], None]

# type → (bytes, reader, writer)
_FIXED: Final[dict[str, tuple[int, ReadFunction, WriteFunction]]] = {
    "bool": (1, Reader.boolean, Writer.boolean),
    "int8": (1, Reader.int8, Writer.int8),
    "int16": (2, Reader.int16, Writer.int16),
    "uint16": (2, Reader.uint16, Writer.uint16),
    "int32": (4, Reader.int32, Writer.int32),
    "uint32": (4, Reader.uint32, Writer.uint32),
    "int64": (8, Reader.int64, Writer.int64),
    "float64": (8, Reader.float64, Writer.float64),
    "uuid": (16, Reader.uuid, Writer.uuid),
}

# (type, compact, nullable) → (reader, writer)
_VARIABLE: Final[dict[tuple[str, bool, bool], tuple[ReadFunction, WriteFunction]]] = {
    ("string", False, False): (Reader.string, Writer.string),
    ("string", False, True): (Reader.nullable_string, Writer.nullable_string),
    ("string", True, False): (Reader.compact_string, Writer.compact_string),
    ("string", True, True): (Reader.compact_nullable_string, Writer.compact_nullable_string),
    ("bytes", False, False): (Reader.binary, Writer.binary),
    ("bytes", False, True): (Reader.nullable_binary, Writer.nullable_binary),
    ("bytes", True, False): (Reader.compact_binary, Writer.compact_binary),
    ("bytes", True, True): (Reader.compact_nullable_binary, Writer.compact_nullable_binary),
}


def compile_reader(schema: Schema, version: int) -> ReadFunction:
    return _struct_reader(schema.body, version, version in schema.flexible)


def compile_writer(schema: Schema, version: int) -> WriteFunction:
    return _struct_writer(schema.body, version, version in schema.flexible)


# Reading


def _reader(field: Field, version: int, flexible: bool) -> ReadFunction:
    nullable = version in field.nullable
    if field.is_array:
        element = _element_reader(field, version, flexible, nullable=False)
        return _array_reader(element, _element_bytes_min(field, version, flexible), flexible, nullable)
    return _element_reader(field, version, flexible, nullable)


def _element_reader(field: Field, version: int, flexible: bool, nullable: bool) -> ReadFunction:
    if field.kind == "struct":
        read = _struct_reader(field, version, flexible)
        return _nullable_struct_reader(read) if nullable else read
    if field.kind in _FIXED:
        return _FIXED[field.kind][1]
    return _VARIABLE[field.kind, flexible, nullable][0]


def _struct_reader(field: Field, version: int, flexible: bool) -> ReadFunction:
    template = [each.default for each in field.fields]
    here = [(index, each) for index, each in enumerate(field.fields) if version in each.versions]
    steps = [(index, _reader(each, version, flexible)) for index, each in here if version not in each.tagged]
    tags = {each.tag: (index, _reader(each, version, flexible)) for index, each in here if version in each.tagged}
    make = field.make

    def read(reader: Reader) -> Any:
        values = template.copy()
        for index, step in steps:
            values[index] = step(reader)
        if tags:
            _read_tags(reader, tags, values)
        elif flexible:
            reader.skip_tags()
        return make(values)

    return read


def _read_tags(reader: Reader, tags: Mapping[int, tuple[int, ReadFunction]], values: list[Any]) -> None:
    count = reader.uvarint()
    if count > TAGS_MAX:
        raise BadFrame(f"{count} tagged fields, the limit is {TAGS_MAX}")
    for _ in range(count):
        tag = reader.uvarint()
        content = reader.take(reader.uvarint())
        if tag in tags:
            index, read = tags[tag]
            inside = Reader(content, max_elements=reader.elements_left)
            values[index] = read(inside)
            if inside.remaining:
                raise BadFrame(f"tagged field {tag} is longer than its value")
            reader.elements_left = inside.elements_left


def _array_reader(element: ReadFunction, least: int, flexible: bool, nullable: bool) -> ReadFunction:
    def read(reader: Reader) -> Any:
        count = reader.uvarint() - 1 if flexible else reader.int32()
        if count == -1 and nullable:
            return None
        reader.expect(count, least)
        return [element(reader) for _ in range(count)]

    return read


def _nullable_struct_reader(present: ReadFunction) -> ReadFunction:
    def read(reader: Reader) -> Any:
        return None if reader.int8() < 0 else present(reader)

    return read


def _element_bytes_min(field: Field, version: int, flexible: bool) -> int:
    """The fewest bytes that one element of an array can take."""
    if field.kind in _FIXED:
        return _FIXED[field.kind][0]
    if field.kind != "struct":
        return 1 if flexible else 2
    least = 1 if flexible else 0
    for each in field.fields:
        if version in each.versions and version not in each.tagged:
            array = each.is_array and (1 if flexible else 4)
            least += array or (1 if version in each.nullable else _element_bytes_min(each, version, flexible))
    return max(least, 1)


# Writing


def _writer(field: Field, version: int, flexible: bool) -> WriteFunction:
    nullable = version in field.nullable
    if field.is_array:
        return _array_writer(_element_writer(field, version, flexible, False), flexible, nullable)
    return _element_writer(field, version, flexible, nullable)


def _element_writer(field: Field, version: int, flexible: bool, nullable: bool) -> WriteFunction:
    if field.kind == "struct":
        write = _struct_writer(field, version, flexible)
        return _nullable_struct_writer(write) if nullable else write
    if field.kind in _FIXED:
        return _FIXED[field.kind][2]
    return _VARIABLE[field.kind, flexible, nullable][1]


def _struct_writer(field: Field, version: int, flexible: bool) -> WriteFunction:
    names = frozenset(each.name for each in field.fields)
    here = [(each, _writer(each, version, flexible)) for each in field.fields if version in each.versions]
    steps = [(each.name, each.default, write) for each, write in here if version not in each.tagged]
    tags = sorted((each.tag, each.name, each.default, write) for each, write in here if version in each.tagged)

    def write(writer: Writer, value: Mapping[str, Any]) -> None:
        if not value.keys() <= names:
            raise ValueError(f"unknown fields {sorted(value.keys() - names)}")
        get = value.get
        name = ""
        try:
            for name, default, step in steps:
                step(writer, get(name, default))
        except (ValueError, TypeError, AttributeError) as error:
            raise ValueError(f"{name}: {error}") from error
        if tags:
            present = [(tag, step, get(name, default), default) for tag, name, default, step in tags]
            _write_tags(writer, [(tag, step, value) for tag, step, value, default in present
                                 if value != default and not (default == () and value == [])])  # fmt: skip
        elif flexible:
            writer.no_tags()

    return write


def _write_tags(writer: Writer, present: list[tuple[int, WriteFunction, Any]]) -> None:
    writer.uvarint(len(present))
    for tag, write, value in present:
        inside = Writer()
        write(inside, value)
        writer.uvarint(tag)
        writer.uvarint(len(inside.buffer))
        writer.buffer += inside.buffer


def _array_writer(element: WriteFunction, flexible: bool, nullable: bool) -> WriteFunction:
    def write(writer: Writer, values: Any) -> None:
        if values is None:
            if not nullable:
                raise ValueError("the array must not be null")
            writer.uvarint(0) if flexible else writer.int32(-1)
            return
        writer.uvarint(len(values) + 1) if flexible else writer.int32(len(values))
        for value in values:
            element(writer, value)

    return write


def _nullable_struct_writer(present: WriteFunction) -> WriteFunction:
    def write(writer: Writer, value: Any) -> None:
        if value is None:
            writer.int8(-1)
        else:
            writer.int8(1)
            present(writer, value)

    return write
