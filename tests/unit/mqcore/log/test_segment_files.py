"""Names of segment files, and which other names are ignored."""

from __future__ import annotations

import pytest

from mqcore.log.segment_files import INDEX_SUFFIX, parse_base_offset, segment_bases, segment_name


@pytest.mark.parametrize("base", [0, 42, 2**63 - 1])
def test_a_base_offset_is_read_back_from_the_name(base: int) -> None:
    assert parse_base_offset(segment_name(base)) == base
    assert parse_base_offset(segment_name(base, INDEX_SUFFIX), INDEX_SUFFIX) == base


@pytest.mark.parametrize(
    "name",
    ["x.log", "abcdefghijklmnopqrst.log", "٠" * 20 + ".log", f"{0:020d}.index", f"{0:020d}.log.swap", f"{0:021d}.log"],
)
def test_other_names_are_not_segments(name: str) -> None:
    assert parse_base_offset(name) is None
    assert segment_bases([name, segment_name(7)]) == [7]
