"""One batch is one transaction, so offset and effects always agree."""

from __future__ import annotations

import threading
from dataclasses import replace
from typing import Any

import pytest
from django.conf import settings
from django.db import IntegrityError, OperationalError, connection

from seckill.messaging import batch_worker, fault_points, offsets
from seckill.messaging.batch_worker import ATTEMPTS_MAX, CRASHES_MAX, BatchWorker, RetryLater
from seckill.messaging.models import ConsumerOffset, DeadLetter, OutboxRow
from seckill.messaging.records import CRASHED, Batch, PermanentFailure
from tests.concurrency.messaging_cast import TOPIC, Notes, claim, effects, record, records
from tests.services import together


def texts(*numbers: int) -> list[str]:
    return [str(number) for number in numbers]


def refuse(*bad: int, fault: type[Exception] = PermanentFailure) -> Notes:
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


def test_a_batch_commits_its_offset_and_its_effects_together() -> None:
    assert BatchWorker(Notes()).process(claim(), records(3), 0) == 3
    assert effects() == texts(0, 1, 2)
    assert next_offset() == 3


def test_a_zombie_is_fenced_before_its_handler_runs() -> None:
    zombie, notes = claim(), Notes()
    claim()
    with pytest.raises(offsets.ClaimFenced):
        BatchWorker(notes).process(zombie, records(3), 0)
    assert notes.sizes == []
    assert effects() == []


def test_a_zombie_fenced_in_the_middle_of_its_batch_commits_nothing() -> None:
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
        return BatchWorker(Notes()).process(new, records(3), new.next_offset)

    late, done = together([lambda: BatchWorker(Notes(stall)).process(old, records(3), 0), successor])
    assert isinstance(late, offsets.ClaimFenced)
    assert done == 3
    assert effects() == texts(0, 1, 2)


def test_without_the_fence_a_zombie_repeats_the_effects(monkeypatch: pytest.MonkeyPatch) -> None:
    """The control: the same, with an advance that checks neither epoch nor offset."""

    def careless(claim: offsets.PartitionClaim, start: int, end: int, last_record: str = "") -> None:
        ConsumerOffset.objects.update(next_offset=end)

    monkeypatch.setattr(offsets, "advance", careless)
    monkeypatch.setattr(offsets, "note_attempt", lambda claim, start, end, alone: None)
    old = claim()
    new = claim()
    BatchWorker(Notes()).process(new, records(3), 0)
    BatchWorker(Notes()).process(old, records(3), 0)
    assert effects() == texts(0, 1, 2, 0, 1, 2)


def test_a_batch_that_was_already_committed_is_fenced_even_under_a_valid_claim() -> None:
    """This happens after a COMMIT whose answer was lost; `current_offset` says where to continue."""
    mine = claim()
    BatchWorker(Notes()).process(mine, records(3), 0)
    with pytest.raises(offsets.ClaimFenced):
        BatchWorker(Notes()).process(mine, records(3), 0)
    assert offsets.current_offset(mine) == 3
    claim()
    assert offsets.current_offset(mine) is None


# ── what fails ───────────────────────────────────────────────────────────────────────────────────


def test_the_one_bad_record_of_a_batch_is_found_and_the_others_are_processed_in_order() -> None:
    notes = refuse(37)
    assert BatchWorker(notes).process(claim(), records(100), 0) == 100
    assert dead() == [37]
    assert effects() == [str(number) for number in range(100) if number != 37]
    assert len(notes.sizes) <= 2 * 8, "found by halving"


def test_an_unreadable_record_is_a_dead_letter_at_once_and_is_kept_unchanged() -> None:
    poison = [b"", b"\xff\xfe", b"[]", b'{"event_id": 1}', b"{" * 5000]
    batch = [record(number, content=content) for number, content in enumerate(poison)] + [record(5)]
    BatchWorker(Notes()).process(claim(), batch, 0)
    assert dead() == [0, 1, 2, 3, 4]
    assert [bytes(letter.value or b"") for letter in DeadLetter.objects.order_by("offset")] == poison
    assert effects() == ["5"]


def test_a_dead_letter_is_announced_in_the_dead_topic() -> None:
    BatchWorker(refuse(0)).process(claim(), records(1), 0)
    announced = OutboxRow.objects.get(writer="letters")
    assert announced.topic == TOPIC.dead
    assert announced.headers["dead.place"] == "test.events-0@0"
    assert announced.headers["dead.reason"] == "PermanentFailure: 0 is bad"


@pytest.mark.parametrize("fault", [OperationalError, ConnectionError, TimeoutError])
def test_a_transient_fault_is_raised_and_no_record_is_skipped(fault: type[Exception]) -> None:
    with pytest.raises(fault):
        BatchWorker(refuse(1, fault=fault)).process(claim(), records(3), 0)
    assert (effects(), dead(), next_offset()) == ([], [], 0)


@pytest.mark.parametrize("fault", [ZeroDivisionError, IntegrityError])
def test_an_unexpected_exception_gets_a_few_attempts(fault: type[Exception]) -> None:
    worker, mine = BatchWorker(refuse(1, fault=fault)), claim()
    for _ in range(ATTEMPTS_MAX - 1):
        at = offsets.current_offset(mine)
        assert at is not None
        with pytest.raises(RetryLater):
            worker.process(mine, records(3 - at, at), at)
    assert dead() == []
    worker.process(mine, records(2, 1), 1)
    assert DeadLetter.objects.get().attempts == ATTEMPTS_MAX
    assert effects() == texts(0, 2)


def test_a_text_that_postgres_cannot_store_is_a_dead_letter() -> None:
    def store(batch: Batch) -> None:
        with connection.cursor() as cursor:
            for each in batch.records:
                cursor.execute("SELECT %s::text", [each.envelope.body["text"]])

    worker, mine = BatchWorker(Notes(store)), claim()
    for _ in range(ATTEMPTS_MAX - 1):
        with pytest.raises(RetryLater):
            worker.process(mine, [record(0, "a\0b")], 0)
    assert worker.process(mine, [record(0, "a\0b")], 0) == 1
    assert dead() == [0]


def test_too_many_dead_letters_open_the_circuit_and_records_wait() -> None:
    worker = BatchWorker(refuse(*range(500)))
    with pytest.raises(RetryLater, match="the dead-letter circuit is open"):
        worker.process(claim(), records(500), 0)
    assert len(dead()) == 10
    assert next_offset() == 10


# ── what kills ───────────────────────────────────────────────────────────────────────────────────


class Killed(BaseException):
    """Acts like kill -9: nothing catches it and no cleanup runs."""


def life(handler: Notes) -> bool:
    """One life of a consumer: it claims and processes everything. False if it crashed."""
    mine = claim()
    todo = [each for each in batch_of(50) if each.offset >= mine.next_offset]
    try:
        BatchWorker(handler).process(mine, todo, mine.next_offset)
    except Killed:
        return False
    return True


def batch_of(count: int) -> list[Any]:
    return list(records(count))


def test_a_record_that_kills_the_process_becomes_a_dead_letter_after_a_few_crashes() -> None:
    handler = refuse(17, fault=Killed)  # type: ignore[arg-type]
    lives = 0
    while not life(handler):
        lives += 1
        assert lives < 10
    assert lives == CRASHES_MAX + 1  # once with the whole batch, then alone
    assert dead() == [17]
    assert DeadLetter.objects.get().reason.startswith(f"{CRASHED} 3 times")
    assert effects() == [str(number) for number in range(50) if number != 17]


def test_crashes_before_any_attempt_make_no_dead_letter() -> None:
    for _ in range(2 * CRASHES_MAX):
        claim()
    assert life(Notes())
    assert dead() == []


def test_crashes_while_waiting_for_a_lock_make_no_dead_letter() -> None:
    """Another transaction holds the stock row, and an operator keeps killing the consumer."""

    def wait(batch: Batch) -> None:
        with offsets.waiting_for_lock():
            raise Killed

    for _ in range(3 * CRASHES_MAX):
        assert not life(Notes(wait))
    assert ConsumerOffset.objects.get().crash_count == 0
    assert life(Notes())
    assert dead() == []
    assert len(effects()) == 50


def test_crashes_after_the_lock_is_held_make_a_dead_letter() -> None:
    """The control."""

    def work(batch: Batch) -> None:
        with offsets.waiting_for_lock():
            pass
        if batch.records[0].offset == 0:
            raise Killed

    lives = 0
    while not life(Notes(work)):
        lives += 1
        assert lives < 10
    assert (lives, dead()) == (CRASHES_MAX + 1, [0])


def test_an_outage_does_not_count_as_a_crash() -> None:
    mine = claim()
    with pytest.raises(OperationalError):
        BatchWorker(refuse(0, fault=OperationalError)).process(mine, records(1), 0)
    offsets.clear_attempt(mine)
    assert claim().crash_count == 0


def test_an_enabled_fault_point_is_removed_after_the_first_life() -> None:
    assert fault_points.remaining_faults(1, "a.b:once, c.d") == " c.d"
    assert batch_worker.DeliveryGuarantee("exactly-once") is batch_worker.DeliveryGuarantee.EXACTLY_ONCE


def test_fault_points_are_disabled_by_default(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(settings, "ENVIRONMENT", replace(settings.ENVIRONMENT, fault="other.point:once"))
    fault_points.trigger("readers.before_commit")
