"""Lab 6: .venv/bin/pytest docs/labs/exercises/test_lab06.py"""

from __future__ import annotations

from docs.labs.exercises import lab06_zombie as lab


def test_1_a_claim_begins_where_the_row_is_and_is_newer_than_all_before() -> None:
    row = lab.OffsetRow(epoch=4, next_offset=70)
    first, second = lab.claim(row), lab.claim(row)
    assert (first.next_offset, second.next_offset) == (70, 70)
    assert 4 < first.epoch < second.epoch == row.epoch


def test_2_a_zombie_changes_no_row_and_neither_does_a_batch_that_was_processed() -> None:
    row = lab.OffsetRow(epoch=2, next_offset=10)
    zombie, alive = lab.Claim(1, 10), lab.Claim(2, 10)
    assert not lab.advance(row, zombie, 10, 20)
    assert lab.advance(row, alive, 10, 20)
    assert not lab.advance(row, alive, 10, 20)
    assert row.next_offset == 20


def test_3_a_storage_refuses_older_tokens() -> None:
    storage = lab.Storage()
    answers = [lab.write(storage, token, f"by {token}") for token in (33, 34, 33, 34, 35)]
    assert answers == [True, True, False, True, True]
    assert storage.written == ["by 33", "by 34", "by 34", "by 35"]
