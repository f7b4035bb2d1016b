"""Reader and Writer agree for every type, and every size is checked before it is used."""

from __future__ import annotations

import tracemalloc
from collections.abc import Callable
from typing import Any
from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mqcore.wire.fast_primitives import read_string
from mqcore.wire.frames import BadFrame
from mqcore.wire.primitives import ELEMENTS_MAX, Reader, Writer

INTEGERS = {"int8": (-(2**7), 2**7 - 1), "int16": (-(2**15), 2**15 - 1), "uint16": (0, 2**16 - 1)}
INTEGERS |= {"int32": (-(2**31), 2**31 - 1), "uint32": (0, 2**32 - 1), "int64": (-(2**63), 2**63 - 1)}
INTEGERS |= {"varint": (-(2**31), 2**31 - 1), "varlong": (-(2**63), 2**63 - 1), "uvarint": (0, 2**32 - 1)}

TYPES: dict[str, st.SearchStrategy[Any]] = {name: st.integers(*limits) for name, limits in INTEGERS.items()}
TYPES["float64"] = st.floats(allow_nan=False)
TYPES["boolean"] = st.booleans()
TYPES["uuid"] = st.uuids() | st.none()
for plain, values in (("string", st.text(max_size=300)), ("binary", st.binary(max_size=300))):
    for prefix in ("", "compact_"):
        TYPES[prefix + plain] = values
        TYPES[f"{prefix}nullable_{plain}"] = values | st.none()


def written(name: str, *arguments: Any) -> bytes:
    writer = Writer()
    getattr(writer, name)(*arguments)
    return writer.finish()


@pytest.mark.parametrize("name", TYPES)
def test_every_primitive_is_decoded_and_truncation_is_detected(name: str) -> None:
    @given(TYPES[name])
    def check(value: Any) -> None:
        encoded = written(name, value)
        reader = Reader(encoded + b"next")
        assert getattr(reader, name)() == value
        assert reader.remaining == 4
        with pytest.raises(BadFrame):
            getattr(Reader(encoded[:-1]), name)()

    check()


@pytest.mark.parametrize("name", ["array", "nullable_array", "compact_array", "compact_nullable_array"])
def test_an_array_reads_back_as_a_list(name: str) -> None:
    writer = Writer()
    getattr(writer, name)([1, -2, 3], writer.int16)
    reader = Reader(writer.finish())
    assert getattr(reader, name)(reader.int16, 2) == [1, -2, 3]
    assert reader.remaining == 0


@pytest.mark.parametrize("name", ["nullable_array", "compact_nullable_array"])
def test_only_a_nullable_array_may_be_null(name: str) -> None:
    encoded = written(name, None, None)
    reader = Reader(encoded)
    assert getattr(reader, name)(reader.int8) is None
    with pytest.raises(BadFrame):
        getattr(Reader(encoded), name.replace("nullable_", ""))(reader.int8)


@pytest.mark.parametrize("name", ["string", "compact_string", "binary", "compact_binary"])
def test_an_unexpected_null_is_a_bad_frame(name: str) -> None:
    nullable = "compact_nullable_" + name.removeprefix("compact_") if "compact" in name else "nullable_" + name
    with pytest.raises(BadFrame):
        getattr(Reader(written(nullable, None)), name)()


@pytest.mark.parametrize("name", ["string", "nullable_string"])
def test_a_length_below_minus_one_is_a_bad_frame(name: str) -> None:
    with pytest.raises(BadFrame):
        getattr(Reader(b"\xff\xfe"), name)()


@pytest.mark.parametrize("method", ["string", "compact_string"])
def test_invalid_utf_8_is_a_bad_frame(method: str) -> None:
    encoded = b"\x00\x02\xc3\x28" if method == "string" else b"\x03\xc3\x28"
    with pytest.raises(BadFrame):
        getattr(Reader(encoded), method)()


@pytest.mark.parametrize(
    ("method", "encoded"),
    [
        ("array", b"\x7f\xff\xff\xff" + bytes(100)),
        ("compact_array", b"\xff\xff\xff\xff\x0f" + bytes(100)),
        ("binary", b"\x7f\xff\xff\xff" + bytes(100)),
        ("compact_binary", b"\xff\xff\xff\xff\x0f" + bytes(100)),
        ("string", b"\x7f\xff" + bytes(100)),
        ("compact_string", b"\xff\xff\xff\xff\x0f" + bytes(100)),
    ],
)
def test_nothing_is_allocated_for_an_impossible_size(method: str, encoded: bytes) -> None:
    reader = Reader(encoded)
    arguments: list[Callable[[], int]] = [reader.int8] if "array" in method else []
    tracemalloc.start()
    try:
        with pytest.raises(BadFrame):
            getattr(reader, method)(*arguments)
        assert tracemalloc.get_traced_memory()[1] < 20_000
    finally:
        tracemalloc.stop()


def test_the_minimum_element_size_limits_the_count_before_anything_is_read() -> None:
    encoded = b"\x00\x00\x00\x02" + bytes(15)
    with pytest.raises(BadFrame):
        Reader(encoded).array(lambda: pytest.fail("read an element"), 8)
    reader = Reader(encoded + b"\x00")
    assert reader.array(reader.int64, 8) == [0, 0]


def test_all_arrays_of_a_message_share_one_limit() -> None:
    half = ELEMENTS_MAX // 2
    encoded = written("array", [0] * half, lambda _: None) + bytes(half)
    reader = Reader(encoded * 3)
    reader.array(reader.int8)
    reader.array(reader.int8)
    with pytest.raises(BadFrame):
        reader.array(reader.int8)


@pytest.mark.parametrize(
    ("name", "encoded"),
    [
        ("uvarint", b"\x80" * 4 + b"\x10"),  # 33 bits
        ("uvarint", b"\x80" * 5 + b"\x00"),
        ("varint", b"\x80" * 4 + b"\x10"),
        ("varlong", b"\x80" * 9 + b"\x02"),  # 65 bits
        ("varlong", b"\x80" * 10 + b"\x00"),
    ],
)
def test_a_varint_that_is_too_long_or_too_large_is_a_bad_frame(name: str, encoded: bytes) -> None:
    with pytest.raises(BadFrame):
        getattr(Reader(encoded), name)()


def test_the_zero_uuid_is_decoded_as_none() -> None:
    assert Reader(bytes(16)).uuid() is None
    assert written("uuid", None) == written("uuid", UUID(int=0)) == bytes(16)


@pytest.mark.parametrize("name", ["int8", "int16", "uint16", "int32", "uint32", "int64", "uvarint"])
def test_an_own_value_that_does_not_fit_is_a_value_error(name: str) -> None:
    for wrong in (INTEGERS[name][0] - 1, *([INTEGERS[name][1] + 1] if name != "uvarint" else [])):
        with pytest.raises(ValueError):
            written(name, wrong)


def test_an_own_string_that_is_too_long_is_a_value_error() -> None:
    with pytest.raises(ValueError):
        written("string", "x" * 40_000)


def test_tagged_fields_are_skipped() -> None:
    reader = Reader(b"\x01\x05\x02ab!")
    reader.skip_tags()
    assert reader.int8() == ord("!")
    assert written("no_tags") == b"\x00"


@pytest.mark.parametrize("method", ["compact_string", "compact_nullable_string"])
def test_a_compact_string_has_the_limit_of_an_old_string(method: str) -> None:
    longest = Writer()
    longest.compact_string("x" * 0x7FFF)
    assert getattr(Reader(longest.finish()), method)() == "x" * 0x7FFF
    longer = Writer()
    longer.compact_string("x" * 0x8000)
    with pytest.raises(BadFrame, match="32768 bytes"):
        getattr(Reader(longer.finish()), method)()
    with pytest.raises(BadFrame, match="32768 bytes"):
        read_string(memoryview(longer.finish()), 0, True)
