"""One batch is one transaction: whatever happens, offsets and effects tell the same story."""

from __future__ import annotations

import threading
from dataclasses import replace
from typing import Any

import pytest
from django.conf import settings
from django.db import IntegrityError, OperationalError, connection

from seckill.streams import faults, offsets, working
from seckill.streams.models import ConsumerOffset, DeadLetter, OutboxRow
from seckill.streams.records import Batch, Permanent
from seckill.streams.working import MOST_DEATHS, MOST_TRIES, TryAgain, Worker
from tests.concurrency.streams_cast import TOPIC, Notes, claim, effects, record, records
from tests.services import together


def texts(*numbers: int) -> list[str]:
    return [str(number) for number in numbers]


def refuse(*bad: int, fault: type[Exception] = Permanent) -> Notes:
    def before(batch: Batch) -> None:
        for each in batch.records:
            if each.offset in bad:
                raise fault(f"{each.offset} is bad")

    return Notes(before)


def dead() -> list[int]:
    return list(DeadLetter.objects.order_by("offset").values_list("offset", flat=True))


def next_offset() -> int:
    return ConsumerOffset.objects.get().next_offset


# ── the fence ────────────────────────────────────────────────────────────────────────────────────


def test_a_batch_advances_offsets_and_effects_together() -> None:
    assert Worker(Notes()).work(claim(), records(3), 0) == 3
    assert effects() == texts(0, 1, 2)
    assert next_offset() == 3


def test_a_zombie_is_fenced_before_its_handler_runs() -> None:
    zombie, notes = claim(), Notes()
    claim()
    with pytest.raises(offsets.Fenced):
        Worker(notes).work(zombie, records(3), 0)
    assert notes.sizes == []
    assert effects() == []


def test_a_zombie_that_was_overtaken_within_its_batch_leaves_nothing() -> None:
    """The successor claims while the zombie's handler runs: the zombie's late commit must not count."""
    in_the_middle, overtaken = threading.Event(), threading.Event()

    def stall(batch: Batch) -> None:
        in_the_middle.set()
        assert overtaken.wait(10)

    old = claim()

    def successor() -> int:
        assert in_the_middle.wait(10)
        new = claim()
        overtaken.set()
        return Worker(Notes()).work(new, records(3), new.next_offset)

    late, done = together([lambda: Worker(Notes(stall)).work(old, records(3), 0), successor])
    assert isinstance(late, offsets.Fenced)
    assert done == 3
    assert effects() == texts(0, 1, 2)


def test_without_the_fence_the_zombie_doubles(monkeypatch: pytest.MonkeyPatch) -> None:
    """The control: the same, with an advance that looks at nothing."""

    def careless(claim: offsets.Claim, start: int, end: int, last_record: str = "") -> None:
        ConsumerOffset.objects.update(next_offset=end)

    monkeypatch.setattr(offsets, "advance", careless)
    monkeypatch.setattr(offsets, "begin", lambda claim, start, end, alone: None)
    old = claim()
    new = claim()
    Worker(Notes()).work(new, records(3), 0)
    Worker(Notes()).work(old, records(3), 0)
    assert effects() == texts(0, 1, 2, 0, 1, 2)


def test_a_batch_that_was_done_already_is_fenced_although_the_claim_holds() -> None:
    """As after a COMMIT whose answer was lost; `position` tells where to go on."""
    mine = claim()
    Worker(Notes()).work(mine, records(3), 0)
    with pytest.raises(offsets.Fenced):
        Worker(Notes()).work(mine, records(3), 0)
    assert offsets.position(mine) == 3
    claim()
    assert offsets.position(mine) is None


# ── what fails ───────────────────────────────────────────────────────────────────────────────────


def test_the_one_bad_record_of_a_batch_is_found_and_the_rest_goes_on_in_order() -> None:
    notes = refuse(37)
    assert Worker(notes).work(claim(), records(100), 0) == 100
    assert dead() == [37]
    assert effects() == [str(number) for number in range(100) if number != 37]
    assert len(notes.sizes) <= 2 * 8, "found by halving"


def test_what_is_no_message_of_ours_is_dead_at_once_and_kept_as_it_came() -> None:
    poison = [b"", b"\xff\xfe", b"[]", b'{"event_id": 1}', b"{" * 5000]
    batch = [record(number, content=content) for number, content in enumerate(poison)] + [record(5)]
    Worker(Notes()).work(claim(), batch, 0)
    assert dead() == [0, 1, 2, 3, 4]
    assert [bytes(letter.value or b"") for letter in DeadLetter.objects.order_by("offset")] == poison
    assert effects() == ["5"]


def test_a_dead_letter_is_told_of_in_its_topic() -> None:
    Worker(refuse(0)).work(claim(), records(1), 0)
    told = OutboxRow.objects.get(writer="letters")
    assert told.topic == TOPIC.dead
    assert told.headers["dead.place"] == "test.events-0@0"
    assert told.headers["dead.reason"] == "Permanent: 0 is bad"


@pytest.mark.parametrize("fault", [OperationalError, ConnectionError, TimeoutError])
def test_what_passes_is_raised_and_nothing_is_skipped(fault: type[Exception]) -> None:
    with pytest.raises(fault):
        Worker(refuse(1, fault=fault)).work(claim(), records(3), 0)
    assert (effects(), dead(), next_offset()) == ([], [], 0)


@pytest.mark.parametrize("fault", [ZeroDivisionError, IntegrityError])
def test_what_nobody_foresaw_gets_a_few_tries(fault: type[Exception]) -> None:
    worker, mine = Worker(refuse(1, fault=fault)), claim()
    for _ in range(MOST_TRIES - 1):
        at = offsets.position(mine)
        assert at is not None
        with pytest.raises(TryAgain):
            worker.work(mine, records(3 - at, at), at)
    assert dead() == []
    worker.work(mine, records(2, 1), 1)
    assert DeadLetter.objects.get().attempts == MOST_TRIES
    assert effects() == texts(0, 2)


def test_a_text_that_postgres_cannot_keep_is_a_dead_letter() -> None:
    def store(batch: Batch) -> None:
        with connection.cursor() as cursor:
            for each in batch.records:
                cursor.execute("SELECT %s::text", [each.envelope.body["text"]])

    worker, mine = Worker(Notes(store)), claim()
    for _ in range(MOST_TRIES - 1):
        with pytest.raises(TryAgain):
            worker.work(mine, [record(0, "a\0b")], 0)
    assert worker.work(mine, [record(0, "a\0b")], 0) == 1
    assert dead() == [0]


def test_too_many_dead_letters_stop_the_dying() -> None:
    worker = Worker(refuse(*range(500)))
    with pytest.raises(TryAgain, match="too many dead letters"):
        worker.work(claim(), records(500), 0)
    assert len(dead()) == 10
    assert next_offset() == 10


# ── what kills ───────────────────────────────────────────────────────────────────────────────────


class Killed(BaseException):
    """Stands for kill -9: nothing catches it and nothing is tidied up."""


def life(handler: Notes) -> bool:
    """One life of a consumer: claims, works on all there is; False if it died."""
    mine = claim()
    todo = [each for each in batch_of(50) if each.offset >= mine.next_offset]
    try:
        Worker(handler).work(mine, todo, mine.next_offset)
    except Killed:
        return False
    return True


def batch_of(count: int) -> list[Any]:
    return list(records(count))


def test_a_record_that_kills_the_process_is_dead_after_a_few_lives_and_its_neighbours_live() -> None:
    handler = refuse(17, fault=Killed)  # type: ignore[arg-type]
    lives = 0
    while not life(handler):
        lives += 1
        assert lives < 10
    assert lives == MOST_DEATHS + 1  # once in the whole batch, then alone
    assert dead() == [17]
    assert "died 3 times" in DeadLetter.objects.get().reason
    assert effects() == [str(number) for number in range(50) if number != 17]


def test_processes_that_die_before_they_try_anything_bury_nobody() -> None:
    for _ in range(2 * MOST_DEATHS):
        claim()
    assert life(Notes())
    assert dead() == []


def test_processes_killed_while_they_wait_for_a_lock_bury_nobody() -> None:
    """Something holds the stock row; the operator restarts the consumer again and again, the hard way."""

    def wait(batch: Batch) -> None:
        with offsets.waiting():
            raise Killed

    for _ in range(3 * MOST_DEATHS):
        assert not life(Notes(wait))
    assert ConsumerOffset.objects.get().deaths == 0
    assert life(Notes())
    assert dead() == []
    assert len(effects()) == 50


def test_processes_that_die_at_their_first_record_after_the_lock_is_theirs_bury_it() -> None:
    """The control."""

    def work(batch: Batch) -> None:
        with offsets.waiting():
            pass
        if batch.records[0].offset == 0:
            raise Killed

    lives = 0
    while not life(Notes(work)):
        lives += 1
        assert lives < 10
    assert (lives, dead()) == (MOST_DEATHS + 1, [0])


def test_an_outage_is_no_death() -> None:
    mine = claim()
    with pytest.raises(OperationalError):
        Worker(refuse(0, fault=OperationalError)).work(mine, records(1), 0)
    offsets.give_up(mine)
    assert claim().deaths == 0


def test_a_fault_point_that_is_on_is_left_out_after_the_first_life() -> None:
    assert faults.left_after(1, "a.b:once, c.d") == " c.d"
    assert working.Delivery("exactly-once") is working.Delivery.EXACTLY_ONCE


def test_fault_points_are_off(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(settings, "ENVIRONMENT", replace(settings.ENVIRONMENT, fault="other.point:once"))
    faults.point("readers.before_commit")
