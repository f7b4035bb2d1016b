"""Lab 14: .venv/bin/pytest docs/labs/exercises/test_lab14.py"""

from __future__ import annotations

import random

import pytest

from docs.labs.exercises import lab14_truncation as lab
from docs.labs.exercises.lab14_truncation import EpochStart
from mqcore.log import epochs


@pytest.mark.parametrize("seed", range(20))
def test_1_the_answer_is_the_brokers_own(seed: int) -> None:
    chance = random.Random(seed)
    known = sorted(chance.sample(range(1, 12), chance.randint(1, 5)))
    offsets = sorted(chance.sample(range(40), len(known)))
    log_end = offsets[-1] + chance.randint(1, 9)
    real = epochs.EpochCache(lambda: log_end, [epochs.EpochStart(*pair) for pair in zip(known, offsets, strict=True)])
    starts = [EpochStart(*pair) for pair in zip(known, offsets, strict=True)]
    for epoch in range(-1, 14):
        assert tuple(lab.end_of_epoch(starts, log_end, epoch)) == tuple(real.end_offset_for(epoch))


def test_2_a_leader_notices_a_follower_whose_last_record_it_does_not_have() -> None:
    starts = [EpochStart(1, 0), EpochStart(3, 5)]
    fetches = {(5, 1): False, (6, 1): True, (7, 3): False, (8, 3): False, (9, 3): True, (4, 2): True, (3, 1): False}
    assert {fetch: lab.has_diverged(starts, 8, *fetch) for fetch in fetches} == fetches


def test_3_a_follower_cuts_at_the_smaller_of_two_ends() -> None:
    """The story of docs/truncation.md: broker 2 has 0¹ 2² 3² 4², and the leader answers that epoch 1 ends at 2."""
    own = [EpochStart(1, 0), EpochStart(2, 1)]
    assert lab.cut_at(own, 4, 1, 2) == 1
    assert lab.cut_at(own, 4, 2, 3) == 3
