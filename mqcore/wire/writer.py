"""Codec: the Kafka protocol's primitive types, one method each, appended to a buffer.

The values are our own, so one that does not fit its type is a bug and raises `ValueError`.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Sequence
from typing import TypeVar
from uuid import UUID

from mqcore.wire.batches import Buffer

_INT8 = struct.Struct(">b")
_INT16 = struct.Struct(">h")
_UINT16 = struct.Struct(">H")
_INT32 = struct.Struct(">i")
_UINT32 = struct.Struct(">I")
_INT64 = struct.Struct(">q")
_FLOAT64 = struct.Struct(">d")

_NO_UUID = bytes(16)

T = TypeVar("T")


class Writer:
    """Appends to one buffer; `finish` returns the bytes."""

    __slots__ = ("buffer",)

    def __init__(self) -> None:
        self.buffer = bytearray()

    def finish(self) -> bytes:
        return bytes(self.buffer)

    # Numbers

    def int8(self, value: int) -> None:
        self._fixed(_INT8, value)

    def int16(self, value: int) -> None:
        self._fixed(_INT16, value)

    def uint16(self, value: int) -> None:
        self._fixed(_UINT16, value)

    def int32(self, value: int) -> None:
        self._fixed(_INT32, value)

    def uint32(self, value: int) -> None:
        self._fixed(_UINT32, value)

    def int64(self, value: int) -> None:
        self._fixed(_INT64, value)

    def float64(self, value: float) -> None:
        self._fixed(_FLOAT64, value)

    def boolean(self, value: bool) -> None:
        self.buffer.append(1 if value else 0)

    def _fixed(self, form: struct.Struct, value: float) -> None:
        try:
            self.buffer += form.pack(value)
        except struct.error as error:
            raise ValueError(f"{value!r}: {error}") from error

    def uvarint(self, value: int) -> None:
        if value < 0:
            raise ValueError(f"{value} does not fit an unsigned varint")
        while value > 0x7F:
            self.buffer.append(value & 0x7F | 0x80)
            value >>= 7
        self.buffer.append(value)

    def varint(self, value: int) -> None:
        self.uvarint((value << 1 ^ value >> 31) & 0xFFFFFFFF)

    def varlong(self, value: int) -> None:
        self.uvarint((value << 1 ^ value >> 63) & 0xFFFFFFFFFFFFFFFF)

    def uuid(self, value: UUID | None) -> None:
        self.buffer += _NO_UUID if value is None else value.bytes

    # Strings and bytes

    def string(self, value: str) -> None:
        encoded = value.encode()
        self._fixed(_INT16, len(encoded))
        self.buffer += encoded

    def nullable_string(self, value: str | None) -> None:
        if value is None:
            self.buffer += b"\xff\xff"
        else:
            self.string(value)

    def compact_string(self, value: str) -> None:
        encoded = value.encode()
        self.uvarint(len(encoded) + 1)
        self.buffer += encoded

    def compact_nullable_string(self, value: str | None) -> None:
        if value is None:
            self.buffer.append(0)
        else:
            self.compact_string(value)

    def binary(self, value: Buffer) -> None:
        self._fixed(_INT32, len(value))
        self.buffer += value

    def nullable_binary(self, value: Buffer | None) -> None:
        if value is None:
            self.buffer += b"\xff\xff\xff\xff"
        else:
            self.binary(value)

    def compact_binary(self, value: Buffer) -> None:
        self.uvarint(len(value) + 1)
        self.buffer += value

    def compact_nullable_binary(self, value: Buffer | None) -> None:
        if value is None:
            self.buffer.append(0)
        else:
            self.compact_binary(value)

    # Arrays

    def array(self, values: Sequence[T], element: Callable[[T], None]) -> None:
        self._fixed(_INT32, len(values))
        for value in values:
            element(value)

    def nullable_array(self, values: Sequence[T] | None, element: Callable[[T], None]) -> None:
        if values is None:
            self._fixed(_INT32, -1)
        else:
            self.array(values, element)

    def compact_array(self, values: Sequence[T], element: Callable[[T], None]) -> None:
        self.uvarint(len(values) + 1)
        for value in values:
            element(value)

    def compact_nullable_array(self, values: Sequence[T] | None, element: Callable[[T], None]) -> None:
        if values is None:
            self.buffer.append(0)
        else:
            self.compact_array(values, element)

    # Tagged fields

    def no_tags(self) -> None:
        self.buffer.append(0)
