"""The two sparse indexes and their files."""

from __future__ import annotations

import struct
from bisect import bisect_right

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mqcore.log.index import OffsetIndex, TimeIndex

RISING = st.lists(st.integers(1, 10**6), max_size=60).map(
    lambda steps: [sum(steps[: end + 1]) for end in range(len(steps))]
)


@given(RISING, st.integers(0, 10**7))
def test_an_offset_leads_to_the_last_batch_that_ends_at_or_below_it(offsets: list[int], wanted: int) -> None:
    index = OffsetIndex()
    for number, offset in enumerate(offsets):
        index.add(offset, number * 10)
    above = bisect_right(offsets, wanted)
    assert index.floor(wanted) == ((offsets[above - 1], (above - 1) * 10) if above else (-1, 0))


@given(RISING)
def test_an_offset_index_has_kafkas_format_and_is_read_back(offsets: list[int]) -> None:
    index = OffsetIndex()
    for number, offset in enumerate(offsets):
        index.add(offset, number)
    content = index.encode()
    assert content == b"".join(struct.pack(">ii", offset, number) for number, offset in enumerate(offsets))
    again = OffsetIndex.decode(content, len(offsets) + 1)
    assert again is not None
    assert again.entries() == index.entries()
    assert again.size_bytes == len(content)


@pytest.mark.parametrize(
    "entries",
    [[(5, 10), (5, 20)], [(5, 10), (6, 10)], [(5, 10), (4, 20)], [(5, 10), (6, 9)], [(-1, 5)], [(5, -1)], [(5, 100)],
     [(0, 0), (0, 0)]],
)  # fmt: skip
def test_an_offset_index_must_rise_and_lie_within_its_segment(entries: list[tuple[int, int]]) -> None:
    content = b"".join(struct.pack(">ii", *entry) for entry in entries)
    assert OffsetIndex.decode(content, 100) is None


def test_an_index_with_an_incomplete_entry_is_rejected() -> None:
    assert OffsetIndex.decode(bytes(7), 100) is None
    assert TimeIndex.decode(bytes(13)) is None


def test_a_time_index_accepts_only_rising_entries() -> None:
    index = TimeIndex()
    for timestamp, offset in ((-1, 0), (100, 5), (100, 9), (90, 9), (120, 5), (130, 12)):
        index.add(timestamp, offset)
    assert index.entries() == [(100, 5), (130, 12)]
    assert index.last == (130, 12)
    assert [index.floor(timestamp) for timestamp in (0, 99, 100, 129, 130, 999)] == [0, 0, 5, 5, 12, 12]


@given(RISING, RISING)
def test_a_time_index_has_kafkas_format_and_is_read_back(timestamps: list[int], offsets: list[int]) -> None:
    index = TimeIndex()
    entries = list(zip(timestamps, offsets, strict=False))
    for timestamp, offset in entries:
        index.add(timestamp, offset)
    content = index.encode()
    assert content == b"".join(struct.pack(">qi", *entry) for entry in entries)
    again = TimeIndex.decode(content)
    assert again is not None
    assert again.entries() == entries


@pytest.mark.parametrize("entries", [[(5, 1), (5, 2)], [(5, 2), (6, 2)], [(5, -1)]])
def test_a_time_index_that_does_not_rise_is_rejected(entries: list[tuple[int, int]]) -> None:
    assert TimeIndex.decode(b"".join(struct.pack(">qi", *entry) for entry in entries)) is None
