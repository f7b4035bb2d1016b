"""The list of a topic's partitions behaves like a tuple, and old versions of it do not change."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mqcore.controller.partition_list import CHUNK_ELEMENTS, PartitionList

sizes = st.sampled_from([0, 1, CHUNK_ELEMENTS - 1, CHUNK_ELEMENTS, CHUNK_ELEMENTS + 1, 3 * CHUNK_ELEMENTS])


@given(sizes, st.lists(st.integers(0, 200), max_size=20))
def test_it_behaves_like_a_tuple_and_readers_keep_theirs(size: int, steps: list[int]) -> None:
    ours, plain = PartitionList(range(size)), tuple(range(size))
    history = [(ours, plain)]
    for number, step in enumerate(steps):
        if step < len(plain):
            ours, plain = ours.replaced(step, -number), (*plain[:step], -number, *plain[step + 1 :])
        else:
            ours, plain = ours.appended(step), (*plain, step)
        history.append((ours, plain))
    for old, expected in history:
        assert tuple(old) == expected and len(old) == len(expected)
        assert [old[index] for index in range(len(old))] == list(expected)
        assert old[1:5] == expected[1:5] and old == PartitionList(expected)


def test_an_index_outside_the_list_is_an_error() -> None:
    two = PartitionList("ab")
    assert two[-1] == "b"
    for index in (2, -3):
        with pytest.raises(IndexError):
            two[index]
