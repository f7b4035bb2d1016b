"""Where each leader epoch ended, which a follower must know before it truncates its log."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mqcore.log.epochs import EpochCache, EpochStart
from mqcore.log.epochs_file import decode_epochs, encode_epochs


def cache(*starts: tuple[int, int], end: int = 100) -> EpochCache:
    return EpochCache(lambda: end, [EpochStart(*start) for start in starts])


@pytest.mark.parametrize(
    ("asked", "answer"),
    [
        (-1, (-1, -1)),
        (0, (0, 10)),
        (1, (1, 20)),
        (2, (2, 50)),
        (3, (2, 50)),
        (4, (2, 50)),
        (5, (5, 100)),
        (6, (-1, -1)),
    ],
)
def test_an_epoch_ends_where_the_next_known_one_begins(asked: int, answer: tuple[int, int]) -> None:
    assert cache((1, 10), (2, 20), (5, 50)).end_offset_for(asked) == answer


def test_an_empty_cache_answers_that_every_epoch_is_unknown() -> None:
    assert cache().end_offset_for(0) == (-1, -1)
    assert cache().last_epoch == -1
    assert cache().epoch_at(5) == -1


def test_a_leader_without_the_followers_epoch_answers_with_the_one_below_it() -> None:
    """The follower's log has only epoch 3, the leader's has 1, 2 and 4. They have no epoch in common, so the follower
    looks up the leader's answer in its own cache, gets its log start, and truncates everything."""
    leader = cache((1, 0), (2, 10), (4, 20), end=30)
    follower = cache((3, 5), end=25)
    epoch, end = leader.end_offset_for(3)
    assert (epoch, end) == (2, 20)
    own_epoch, own_end = follower.end_offset_for(epoch)
    assert (own_epoch, own_end) == (2, 5)  # below all known epochs: the start of the first one
    assert min(end, own_end) == 5


def test_an_epoch_begins_once_and_an_empty_epoch_is_replaced() -> None:
    epochs = cache((1, 0))
    epochs.begin(1, 50)
    epochs.begin(0, 60)
    epochs.begin(-1, 60)
    assert list(epochs.starts) == [(1, 0)]
    epochs.begin(4, 70)
    epochs.begin(5, 70)  # nothing was written in epoch 4
    assert list(epochs.starts) == [(1, 0), (5, 70)]
    assert epochs.end_offset_for(4) == (1, 70)


def test_cutting_the_end_removes_the_epochs_that_began_there() -> None:
    epochs = cache((1, 0), (2, 10), (5, 20))
    epochs.truncate_end(20)
    assert list(epochs.starts) == [(1, 0), (2, 10)]
    epochs.truncate_end(9)
    assert list(epochs.starts) == [(1, 0)]


@pytest.mark.parametrize(
    ("offset", "left"),
    [
        (0, ((1, 0), (2, 10), (5, 20))),
        (5, ((1, 5), (2, 10), (5, 20))),
        (10, ((2, 10), (5, 20))),
        (19, ((2, 19), (5, 20))),
        (99, ((5, 99),)),
    ],
)
def test_cutting_the_start_keeps_the_epoch_of_the_first_record(offset: int, left: tuple[tuple[int, int], ...]) -> None:
    epochs = cache((1, 0), (2, 10), (5, 20))
    epochs.truncate_start(offset)
    assert epochs.starts == left


def test_the_epoch_of_every_offset_is_known() -> None:
    epochs = cache((1, 5), (2, 10))
    assert [epochs.epoch_at(offset) for offset in (4, 5, 9, 10, 11)] == [-1, 1, 1, 2, 2]


def test_the_epochs_file_has_kafkas_format() -> None:
    assert encode_epochs([EpochStart(0, 0), EpochStart(7, 1742)]) == b"0\n2\n0 0\n7 1742\n"


@given(st.lists(st.tuples(st.integers(1, 50), st.integers(1, 2**40)), max_size=20))
def test_written_epochs_are_read_back(steps: list[tuple[int, int]]) -> None:
    starts, epoch, offset = [], 0, 0
    for up, on in steps:
        epoch, offset = epoch + up, offset + on
        starts.append(EpochStart(epoch, offset))
    assert decode_epochs(encode_epochs(starts)) == starts


@pytest.mark.parametrize(
    "content",
    [b"", b"1\n0\n", b"0\n1\n", b"0\n0\n1 2\n", b"0\n1\n1\n", b"0\n1\n1 2 3\n", b"0\n1\nx y\n", b"0\n2\n2 5\n1 9\n",
     b"0\n2\n1 9\n2 9\n", b"0\n1\n-1 0\n", b"0\n1\n0 -5\n", b"\0" * 20, b"\xff\xfe"],
)  # fmt: skip
def test_a_damaged_epochs_file_is_rejected(content: bytes) -> None:
    assert decode_epochs(content) is None
