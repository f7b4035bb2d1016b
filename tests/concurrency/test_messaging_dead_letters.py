"""Dead letters are listed, replayed or discarded, each at most once."""

from __future__ import annotations

from unittest import mock

import pytest
from django.db import DataError

from seckill.messaging import dead_letters
from seckill.messaging.batch_worker import BatchWorker
from seckill.messaging.models import DeadLetter, OutboxRow
from seckill.messaging.records import Batch, PermanentFailure
from tests.concurrency.messaging_cast import Notes, claim, effects, record
from tests.services import together

State = DeadLetter.State


class Fussy(Notes):
    """A handler that fails until it is repaired, and records what is discarded."""

    def __init__(self) -> None:
        super().__init__(self._look)
        self.repaired = False
        self.given_up: list[int] = []

    def _look(self, batch: Batch) -> None:
        if not self.repaired:
            raise PermanentFailure("unknown version")

    def on_discard(self, batch: Batch) -> None:
        self.given_up += [each.offset for each in batch.records]


@pytest.fixture
def handler() -> Fussy:
    return Fussy()


@pytest.fixture
def letter(handler: Fussy) -> DeadLetter:
    BatchWorker(handler).process(claim(), [record(0)], 0)
    [letter] = dead_letters.list_dead_letters(group="readers", state="open")
    return letter


def now(letter: DeadLetter) -> DeadLetter:
    return DeadLetter.objects.get(id=letter.id)


def test_a_letter_is_replayed_at_its_original_position_once_its_handler_is_repaired(
    letter: DeadLetter, handler: Fussy
) -> None:
    handler.repaired = True
    assert dead_letters.replay(letter, handler) is None
    assert effects() == ["0"]
    assert now(letter).state == State.REPLAYED


def test_two_replays_have_one_effect(letter: DeadLetter, handler: Fussy) -> None:
    handler.repaired = True
    results = together([lambda: dead_letters.replay(letter, handler)] * 4)
    assert sorted(results, key=str) == [None, *["is replayed"] * 3]
    assert effects() == ["0"]


def test_a_dry_run_changes_nothing(letter: DeadLetter) -> None:
    assert dead_letters.find_replay_obstacle(letter) is None
    assert (now(letter).state, effects()) == (State.OPEN, [])


def test_a_letter_whose_replays_fail_is_quarantined(letter: DeadLetter, handler: Fussy) -> None:
    for _ in range(dead_letters.REPLAYS_MAX):
        assert dead_letters.replay(letter, handler) == "PermanentFailure: unknown version"
    assert (now(letter).state, now(letter).replays) == (State.QUARANTINED, dead_letters.REPLAYS_MAX)
    handler.repaired = True
    assert dead_letters.replay(letter, handler) == "is quarantined"
    assert dead_letters.replay(letter, handler, quarantined=True) is None
    assert effects() == ["0"]


def test_a_letter_is_discarded_once_and_its_handler_is_called(letter: DeadLetter, handler: Fussy) -> None:
    assert dead_letters.discard(letter, handler, "the buyer has been refunded") is None
    assert dead_letters.discard(letter, handler, "again") == "is discarded"
    assert handler.given_up == [0]
    assert now(letter).note == "the buyer has been refunded"
    handler.repaired = True
    assert dead_letters.replay(letter, handler) == "is discarded"


def test_a_letter_stays_open_if_its_handler_fails_to_discard_it(letter: DeadLetter) -> None:
    handler = mock.Mock(spec=Fussy(), group="readers")
    handler.on_discard.side_effect = ZeroDivisionError("by nothing")
    assert dead_letters.discard(letter, handler, "never") == "ZeroDivisionError: by nothing"
    assert (now(letter).state, now(letter).note) == (State.OPEN, "")


def test_an_unreadable_letter_can_be_discarded_but_not_replayed() -> None:
    handler = Fussy()
    BatchWorker(handler).process(claim(), [record(0, content=b"\0\xff")], 0)
    [letter] = dead_letters.list_dead_letters()
    assert "not an envelope" in str(dead_letters.find_replay_obstacle(letter))
    assert "not an envelope" in str(dead_letters.replay(letter, handler))
    assert dead_letters.discard(letter, handler, "noise") is None
    assert handler.given_up == []


def test_a_letter_that_the_database_cannot_store_can_still_be_discarded(letter: DeadLetter) -> None:
    handler = mock.Mock(spec=Fussy(), group="readers")
    handler.on_discard.side_effect = DataError("bigint out of range")
    assert dead_letters.discard(letter, handler, "it can never be decided") is None
    assert now(letter).state == State.DISCARDED


def test_the_copy_of_a_large_letter_is_truncated_and_the_row_keeps_all_of_it() -> None:
    big = record(0, content=b"{" + bytes(1_000_000))
    big.headers = [(f"h{number}" * 50, b"x" * 20_000) for number in range(500)]
    BatchWorker(Fussy()).process(claim(), [big], 0)
    row = OutboxRow.objects.get(writer="letters")
    assert len(row.value) + sum(len(name) + len(text) for name, text in row.headers.items()) < 800_000
    [letter] = dead_letters.list_dead_letters()
    assert bytes(letter.value or b"") == big.value
    assert row.headers["dead.truncated"] == f"{len(big.value)} bytes; letter {letter.id} has all of them"
    assert len(letter.headers) == 500
