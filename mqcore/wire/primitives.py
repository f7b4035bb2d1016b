"""Codec: the Kafka protocol's primitive types, one method each, reading from a buffer or writing into one.

`Reader` is the only thing that turns a number from the wire into a size, and it does so under three rules:
* a length or count is compared with the bytes that remain before anything is made;
* a message holds at most `MAX_ELEMENTS` array elements in all, however they are nested: three bytes of a frame may
  become a hundred of objects, so the frame limit alone does not bound memory;
* whatever is wrong is a `BadFrame`.

`Writer` is for our own values; what does not fit its type is a bug and raises `ValueError`.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Sequence
from typing import Final, TypeVar
from uuid import UUID

from mqcore.wire.batches import Buffer
from mqcore.wire.frames import BadFrame, read_uvarint, skip_tags

MAX_ELEMENTS: Final = 100_000

_INT8 = struct.Struct(">b")
_INT16 = struct.Struct(">h")
_UINT16 = struct.Struct(">H")
_INT32 = struct.Struct(">i")
_UINT32 = struct.Struct(">I")
_INT64 = struct.Struct(">q")
_FLOAT64 = struct.Struct(">d")

_NO_UUID = bytes(16)

T = TypeVar("T")


class Reader:
    """A cursor over one message. `minimum` of the array methods is the least size of one element in bytes."""

    __slots__ = ("data", "elements_left", "position")

    def __init__(self, data: Buffer, position: int = 0, *, max_elements: int = MAX_ELEMENTS) -> None:
        self.data = data
        self.position = position
        self.elements_left = max_elements

    @property
    def remaining(self) -> int:
        return len(self.data) - self.position

    # Numbers

    def int8(self) -> int:
        return self._fixed(_INT8)

    def int16(self) -> int:
        return self._fixed(_INT16)

    def uint16(self) -> int:
        return self._fixed(_UINT16)

    def int32(self) -> int:
        return self._fixed(_INT32)

    def uint32(self) -> int:
        return self._fixed(_UINT32)

    def int64(self) -> int:
        return self._fixed(_INT64)

    def float64(self) -> float:
        position = self.position
        self.position = position + 8
        try:
            return float(_FLOAT64.unpack_from(self.data, position)[0])
        except struct.error:
            raise BadFrame("number runs over the end") from None

    def boolean(self) -> bool:
        return self._fixed(_INT8) != 0

    def _fixed(self, form: struct.Struct) -> int:
        position = self.position
        self.position = position + form.size
        try:
            value: int = form.unpack_from(self.data, position)[0]
        except struct.error:
            raise BadFrame("number runs over the end") from None
        return value

    def uvarint(self) -> int:
        value, self.position = read_uvarint(self.data, self.position)
        return value

    def varint(self) -> int:
        """Zigzag, 32 bits."""
        value, self.position = read_uvarint(self.data, self.position)
        return (value >> 1) ^ -(value & 1)

    def varlong(self) -> int:
        """Zigzag, 64 bits."""
        value = shift = 0
        while True:
            if self.position >= len(self.data):
                raise BadFrame("varint runs over the end")
            byte = self.data[self.position]
            self.position += 1
            value |= (byte & 0x7F) << shift
            if byte < 0x80:
                break
            shift += 7
            if shift > 63:
                raise BadFrame("varint is longer than 10 bytes")
        if value > 0xFFFFFFFFFFFFFFFF:
            raise BadFrame("varint is larger than 64 bits")
        return (value >> 1) ^ -(value & 1)

    def uuid(self) -> UUID | None:
        """None for the zero UUID, which stands for "no topic id"."""
        raw = bytes(self.take(16))
        return None if raw == _NO_UUID else UUID(bytes=raw)

    # Strings and bytes

    def take(self, length: int) -> Buffer:
        """The next `length` bytes, as a slice of whatever the buffer is."""
        if length < 0:
            raise BadFrame(f"length {length}")
        end = self.position + length
        if end > len(self.data):
            raise BadFrame(f"{length} bytes announced, {self.remaining} there")
        taken = self.data[self.position : end]
        self.position = end
        return taken

    def string(self) -> str:
        return self._text(self._fixed(_INT16))

    def nullable_string(self) -> str | None:
        length = self._fixed(_INT16)
        return None if length == -1 else self._text(length)

    def compact_string(self) -> str:
        return self._text(self.uvarint() - 1)

    def compact_nullable_string(self) -> str | None:
        length = self.uvarint() - 1
        return None if length == -1 else self._text(length)

    def _text(self, length: int) -> str:
        try:
            return str(self.take(length), "utf-8")
        except UnicodeDecodeError:
            raise BadFrame("string is not UTF-8") from None

    def binary(self) -> bytes:
        return bytes(self.take(self._fixed(_INT32)))

    def nullable_binary(self) -> bytes | None:
        length = self._fixed(_INT32)
        return None if length == -1 else bytes(self.take(length))

    def compact_binary(self) -> bytes:
        return bytes(self.take(self.uvarint() - 1))

    def compact_nullable_binary(self) -> bytes | None:
        length = self.uvarint() - 1
        return None if length == -1 else bytes(self.take(length))

    # Arrays

    def array(self, element: Callable[[], T], minimum: int = 1) -> list[T]:
        return self._elements(self._fixed(_INT32), element, minimum)

    def nullable_array(self, element: Callable[[], T], minimum: int = 1) -> list[T] | None:
        count = self._fixed(_INT32)
        return None if count == -1 else self._elements(count, element, minimum)

    def compact_array(self, element: Callable[[], T], minimum: int = 1) -> list[T]:
        return self._elements(self.uvarint() - 1, element, minimum)

    def compact_nullable_array(self, element: Callable[[], T], minimum: int = 1) -> list[T] | None:
        count = self.uvarint() - 1
        return None if count == -1 else self._elements(count, element, minimum)

    def _elements(self, count: int, element: Callable[[], T], minimum: int) -> list[T]:
        self.expect(count, minimum)
        return [element() for _ in range(count)]

    def expect(self, count: int, minimum: int) -> None:
        """`BadFrame` unless `count` elements of at least `minimum` bytes each can follow."""
        if count < 0:
            raise BadFrame(f"array of {count} elements")
        if count * minimum > len(self.data) - self.position:
            raise BadFrame(f"array of {count} elements in {self.remaining} bytes")
        self.elements_left -= count
        if self.elements_left < 0:
            raise BadFrame("too many array elements in one message")

    # Tagged fields

    def skip_tags(self) -> None:
        self.position = skip_tags(self.data, self.position)


class Writer:
    """Appends to one buffer; `finish` gives the bytes."""

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
            raise ValueError(f"{value} as an unsigned varint")
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
