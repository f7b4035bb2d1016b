"""Codec: the Kafka protocol's primitive types, one method each, read from untrusted bytes.

Only `Reader` and `fast_primitives` turn a number from the wire into a size. Their rules:
* A length or count is compared with the remaining bytes before anything is allocated.
* A message holds at most `ELEMENTS_MAX` array elements in total, however they are nested. Three bytes of a frame may
  become an object of a hundred bytes, so the frame limit alone does not bound memory.
* Every fault is a `BadFrame`.
"""

from __future__ import annotations

import struct
from collections.abc import Callable
from typing import Final, TypeVar
from uuid import UUID

from mqcore.wire.batches import Buffer
from mqcore.wire.frames import STRING_BYTES_MAX, BadFrame, read_uvarint, skip_tags

ELEMENTS_MAX: Final = 100_000

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

    def __init__(self, data: Buffer, position: int = 0, *, max_elements: int = ELEMENTS_MAX) -> None:
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
        """None for the zero UUID, which means "no topic id"."""
        raw = bytes(self.take(16))
        return None if raw == _NO_UUID else UUID(bytes=raw)

    # Strings and bytes

    def take(self, length: int) -> Buffer:
        """The next `length` bytes, as a slice of the buffer."""
        if length < 0:
            raise BadFrame(f"negative length {length}")
        end = self.position + length
        if end > len(self.data):
            raise BadFrame(f"{length} bytes announced, {self.remaining} remain")
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
        if length > STRING_BYTES_MAX:
            raise BadFrame(f"string of {length} bytes, the limit is {STRING_BYTES_MAX}")
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
            raise BadFrame(f"array of {count} elements does not fit into {self.remaining} bytes")
        self.elements_left -= count
        if self.elements_left < 0:
            raise BadFrame("too many array elements in one message")

    # Tagged fields

    def skip_tags(self) -> None:
        self.position = skip_tags(self.data, self.position)
