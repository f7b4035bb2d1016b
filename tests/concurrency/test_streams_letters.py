"""Dead letters: listed, tried out, replayed once, discarded; nothing happens to one twice."""

from __future__ import annotations

from unittest import mock

import pytest
from django.db import DataError

from seckill.streams import letters
from seckill.streams.models import DeadLetter, OutboxRow
from seckill.streams.records import Batch, Permanent
from seckill.streams.working import Worker
from tests.concurrency.streams_cast import Notes, claim, effects, record
from tests.services import together

State = DeadLetter.State


class Fussy(Notes):
    """Works on nothing until it is repaired; wants to know what is given up."""

    def __init__(self) -> None:
        super().__init__(self._look)
        self.repaired = False
        self.given_up: list[int] = []

    def _look(self, batch: Batch) -> None:
        if not self.repaired:
            raise Permanent("of a version that I do not know")

    def discard(self, batch: Batch) -> None:
        self.given_up += [each.offset for each in batch.records]


@pytest.fixture
def handler() -> Fussy:
    return Fussy()


@pytest.fixture
def letter(handler: Fussy) -> DeadLetter:
    Worker(handler).work(claim(), [record(0)], 0)
    [letter] = letters.listed(group="readers", state="open")
    return letter


def now(letter: DeadLetter) -> DeadLetter:
    return DeadLetter.objects.get(id=letter.id)


def test_a_letter_is_replayed_in_its_first_place_once_its_handler_is_repaired(
    letter: DeadLetter, handler: Fussy
) -> None:
    handler.repaired = True
    assert letters.replay(letter, handler) is None
    assert effects() == ["0"]
    assert now(letter).state == State.REPLAYED


def test_whoever_replays_twice_has_one_effect(letter: DeadLetter, handler: Fussy) -> None:
    handler.repaired = True
    said = together([lambda: letters.replay(letter, handler)] * 4)
    assert sorted(said, key=str) == [None, *["is replayed"] * 3]
    assert effects() == ["0"]


def test_a_try_out_changes_nothing(letter: DeadLetter) -> None:
    assert letters.try_out(letter) is None
    assert (now(letter).state, effects()) == (State.OPEN, [])


def test_a_letter_that_is_replayed_in_vain_ends_in_quarantine(letter: DeadLetter, handler: Fussy) -> None:
    for _ in range(letters.MOST_REPLAYS):
        assert letters.replay(letter, handler) == "Permanent: of a version that I do not know"
    assert (now(letter).state, now(letter).replays) == (State.QUARANTINED, letters.MOST_REPLAYS)
    handler.repaired = True
    assert letters.replay(letter, handler) == "is quarantined"
    assert letters.replay(letter, handler, quarantined=True) is None
    assert effects() == ["0"]


def test_a_letter_is_discarded_once_and_its_handler_is_told(letter: DeadLetter, handler: Fussy) -> None:
    assert letters.discard(letter, handler, "the buyer has been refunded") is None
    assert letters.discard(letter, handler, "again") == "is discarded"
    assert handler.given_up == [0]
    assert now(letter).note == "the buyer has been refunded"
    handler.repaired = True
    assert letters.replay(letter, handler) == "is discarded"


def test_a_letter_whose_end_cannot_be_written_stays_as_it_was(letter: DeadLetter) -> None:
    handler = mock.Mock(spec=Fussy(), group="readers")
    handler.discard.side_effect = ZeroDivisionError("by nothing")
    assert letters.discard(letter, handler, "never") == "ZeroDivisionError: by nothing"
    assert (now(letter).state, now(letter).note) == (State.OPEN, "")


def test_what_nobody_can_read_can_be_discarded_but_not_replayed() -> None:
    handler = Fussy()
    Worker(handler).work(claim(), [record(0, content=b"\0\xff")], 0)
    [letter] = letters.listed()
    assert "no envelope" in str(letters.try_out(letter))
    assert "no envelope" in str(letters.replay(letter, handler))
    assert letters.discard(letter, handler, "noise") is None
    assert handler.given_up == []


def test_what_the_database_refuses_to_note_can_be_discarded_all_the_same(letter: DeadLetter) -> None:
    handler = mock.Mock(spec=Fussy(), group="readers")
    handler.discard.side_effect = DataError("bigint out of range")
    assert letters.discard(letter, handler, "it can never be decided") is None
    assert now(letter).state == State.DISCARDED


def test_the_copy_of_a_large_letter_fits_into_a_record_and_the_row_keeps_all_of_it() -> None:
    big = record(0, content=b"{" + bytes(1_000_000))
    big.headers = [(f"h{number}" * 50, b"x" * 20_000) for number in range(500)]
    Worker(Fussy()).work(claim(), [big], 0)
    row = OutboxRow.objects.get(writer="letters")
    assert len(row.value) + sum(len(name) + len(text) for name, text in row.headers.items()) < 800_000
    [letter] = letters.listed()
    assert bytes(letter.value or b"") == big.value
    assert row.headers["dead.truncated"] == f"{len(big.value)} bytes; all of them: letter {letter.id}"
    assert len(letter.headers) == 500
