"""New requests diverted while producers write and a group is far behind: nobody overtakes himself; without the list of
those who stay he does."""

from __future__ import annotations

import threading
from collections import defaultdict
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from unittest import mock

import pytest
from django.db import OperationalError

from seckill.audit.trail import listed
from seckill.stack.broker import BrokerProcess
from seckill.streams import diverting, loop, moving, slots
from seckill.streams.loop import Loop
from seckill.streams.models import ConsumerOffset, Divert, SlotMap
from seckill.streams.partitioners import slot_of
from seckill.streams.records import Batch
from seckill.streams.slots import NotNow, SlotWriter
from seckill.streams.stayers import Stayers, mark
from seckill.topics import Topic
from tests.concurrency.streams_cast import Notes, effects, fill, make_topic, value
from tests.concurrency.test_streams_loop import consuming
from tests.concurrency.test_streams_slots import lease_of, quiet, writing
from tests.services import together, until

GROUP = "readers"
ANN, BOB = b"ann", b"bob"


@pytest.fixture(autouse=True)
def short_sessions(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(loop, "SESSION_MS", 2_000)


@pytest.fixture
def topic(broker: BrokerProcess) -> Topic:
    """With one beside it."""
    made = replace(make_topic(broker.address), beside=make_topic(broker.address))
    slots.ensure(made, made.partitions)
    return made


def beside(topic: Topic) -> Topic:
    assert topic.beside is not None
    return topic.beside


class Both(Notes):
    """Reads both, the one beside first."""

    def __init__(self, topic: Topic, before: Callable[[Batch], None] = lambda batch: None) -> None:
        super().__init__(before, topic)
        self.topics = (topic, beside(topic))  # type: ignore[assignment]  # there it is one
        self.first = beside(topic)


def divert(broker: BrokerProcess, topic: Topic) -> diverting.Begun:
    return diverting.divert(broker.address, topic, GROUP, quiet)


def rejoin(broker: BrokerProcess, topic: Topic) -> int:
    return diverting.rejoin(broker.address, topic, GROUP, quiet)


def sent_to(writer: SlotWriter, key: bytes, text: str = "x") -> str | None:
    """The topic; None: it takes nothing now."""
    try:
        return str(writer.send(key, value(text)).get(10).topic)
    except NotNow:
        return None


def knows(writer: SlotWriter, topic: Topic) -> bool:
    return writer._known is not None and writer._known.table.version == moving.table(topic).version


def read_by_now(topic: Topic) -> int:
    names = [each.name for each in moving.with_beside(topic)]
    return sum(ConsumerOffset.objects.filter(topic__in=names).values_list("next_offset", flat=True))


# ── who goes where ───────────────────────────────────────────────────────────────────────────────


def test_who_has_something_open_stays_and_everybody_else_goes_beside_until_they_join_again(
    broker: BrokerProcess, topic: Topic
) -> None:
    with writing(broker, topic) as writer:
        assert sent_to(writer, ANN) == topic.name
        begun = divert(broker, topic)
        assert begun.users == 1
        until(lambda: knows(writer, topic), "the writer to know")
        assert sent_to(writer, ANN) == writer.goes_to(ANN) == topic.name
        assert sent_to(writer, BOB) == writer.goes_to(BOB) == beside(topic).name
        with consuming(Both(topic), broker):
            rejoin(broker, topic)
        until(lambda: knows(writer, topic), "the writer to know")
        assert sent_to(writer, BOB) == topic.name
    assert [entry.verb for entry in listed(verb="backlog")] == [
        "backlog divert, nobody sends", "backlog divert", "backlog rejoin, nobody sends", "backlog rejoin",
    ]  # fmt: skip


def test_who_has_been_decided_by_then_does_not_stay(broker: BrokerProcess, topic: Topic) -> None:
    with writing(broker, topic) as writer, consuming(Both(topic), broker):
        sent_to(writer, ANN)
        until(lambda: read_by_now(topic) == 1, "the group to have read it")
        assert divert(broker, topic).users == 0


def test_while_it_turns_nothing_is_sent_and_one_whose_operator_died_can_be_ended(
    broker: BrokerProcess, topic: Topic
) -> None:
    with writing(broker, topic) as writer:
        sent_to(writer, ANN)
        SlotMap.objects.filter(topic=topic.name).update(turning=diverting.DIVERT, version=2)
        until(lambda: sent_to(writer, ANN) is None, "the writer to know")
        with pytest.raises(moving.Refused, match="a divert is under way"):
            moving.mark(broker.address, topic, {slot_of(ANN): 0}, quiet)
        diverting.abort(topic)
        until(lambda: sent_to(writer, ANN) == topic.name, "the writer to go on")
        with pytest.raises(moving.Refused, match="no divert and no rejoin"):
            diverting.abort(topic)


def test_a_divert_that_was_left_in_the_middle_is_taken_up_again(broker: BrokerProcess, topic: Topic) -> None:
    SlotMap.objects.filter(topic=topic.name).update(turning=diverting.DIVERT, version=2)
    with pytest.raises(moving.Refused, match="nothing is diverted"):
        rejoin(broker, topic)
    assert divert(broker, topic).users == 0
    assert moving.table(topic).turning == ""


# ── when it does not come about ──────────────────────────────────────────────────────────────────


def test_if_a_producer_does_not_answer_in_time_everything_is_as_it_was(
    broker: BrokerProcess, topic: Topic, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is waited for before anybody is stopped, if its lease is not being renewed; else after that."""
    monkeypatch.setattr(moving, "PATIENCE_S", 0.5)
    lease_of(topic, ends_in_s=5)
    with pytest.raises(moving.Refused, match="have not been heard of: their leases have to end: slow"):
        divert(broker, topic)
    assert moving.table(topic).version == 1
    monkeypatch.setattr(diverting, "FRESH_S", 0.0)
    with pytest.raises(moving.Refused, match="may still write by the old table: slow"):
        divert(broker, topic)
    row = moving.table(topic)
    assert (row.turning, row.diverted) == ("", 0)
    assert [entry.verb for entry in listed(verb="backlog")][-1] == "backlog abort divert"


def test_of_two_operators_who_divert_at_once_one_succeeds(broker: BrokerProcess, topic: Topic) -> None:
    results = together([lambda: divert(broker, topic)] * 2)
    assert sum(isinstance(result, diverting.Begun) for result in results) >= 1, results
    row = moving.table(topic)
    assert (row.turning, row.diverted > 0) == ("", True)
    assert all(isinstance(result, diverting.Begun | moving.Refused) for result in results), results


def test_nobody_diverts_twice_or_while_slots_are_moved_or_joins_what_is_one(
    broker: BrokerProcess, topic: Topic
) -> None:
    with pytest.raises(moving.Refused, match="nothing is diverted"):
        rejoin(broker, topic)
    moving.mark(broker.address, topic, {slot_of(ANN): 1 - moving.table(topic).partition_of[slot_of(ANN)]}, quiet)
    with pytest.raises(moving.Refused, match="slots are being moved"):
        divert(broker, topic)
    moving.abort(topic)
    divert(broker, topic)
    with pytest.raises(moving.Refused, match="diverted already"):
        divert(broker, topic)


def test_a_slot_that_moves_meanwhile_waits_for_the_group_in_both_topics(
    broker: BrokerProcess, topic: Topic, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(moving, "PATIENCE_S", 0.5)
    divert(broker, topic)
    with writing(broker, topic) as writer:
        sent_to(writer, BOB)
        old = moving.table(topic).partition_of[slot_of(BOB)]
        with pytest.raises(moving.Refused, match=f"readers, which has yet to pass: {old}: 1"):
            moving.move(broker.address, topic, GROUP, {slot_of(BOB): 1 - old}, quiet)
        with consuming(Both(topic), broker):
            until(lambda: read_by_now(topic) == 1, "the group to have read it")
        moving.finish(broker.address, topic, GROUP, quiet)
        until(lambda: knows(writer, topic), "the writer to know")
        at = writer.send(BOB, value("y")).get(10)
        assert (at.topic, at.partition) == (beside(topic).name, 1 - old)


# ── under load ───────────────────────────────────────────────────────────────────────────────────


USERS = [f"user{number}".encode() for number in range(6)]


@contextmanager
def everybody_writing(writer: SlotWriter, users: list[bytes]) -> Iterator[dict[bytes, int]]:
    """Each user one after the other, as fast as the broker says yes; how many of each have been sent."""
    stop = threading.Event()
    sent: dict[bytes, int] = defaultdict(int)

    def write(user: bytes) -> None:
        while not stop.is_set():
            if sent_to(writer, user, f"{user.decode()} {sent[user]}") is None:
                stop.wait(0.01)
            else:
                sent[user] += 1

    threads = [threading.Thread(target=write, args=(user,)) for user in users]
    for thread in threads:
        thread.start()
    try:
        yield sent
    finally:
        stop.set()
        for thread in threads:
            thread.join(30)


def some_more(sent: dict[bytes, int]) -> None:
    more = sum(sent.values()) + 20
    until(lambda: sum(sent.values()) > more, "some more")


def divert_under_load(broker: BrokerProcess, topic: Topic) -> dict[str, list[int]]:
    """Each user's numbers in the order of their effects, through two diverts. The old topic is slow: half of what it
    has fails passingly at first."""
    tries: dict[int, int] = defaultdict(int)

    def slow(batch: Batch) -> None:
        tries[batch.records[0].offset] += 1
        if batch.topic == topic.name and tries[batch.records[0].offset] == 1:
            raise OperationalError("the database is away, for this batch")

    with writing(broker, topic) as writer, consuming(Both(topic, slow), broker):
        with everybody_writing(writer, USERS[:3]) as sent:
            some_more(sent)
            divert(broker, topic)
            with everybody_writing(writer, USERS[3:]) as later:
                some_more(later)
                for verb in (rejoin, divert, rejoin):
                    some_more(sent)
                    verb(broker, topic)
        sent |= later
        until(lambda: read_by_now(topic) == sum(sent.values()), "the group to be through")
    assert sum(moving.ends_of(broker.address, beside(topic), range(2)).values()) > 0, "else this proves nothing"
    told: dict[str, list[int]] = defaultdict(list)
    for text in effects():
        user, number = text.split()
        told[user].append(int(number))
    assert {user: len(numbers) for user, numbers in told.items()} == {key.decode(): n for key, n in sent.items() if n}
    return told


def test_through_diverts_and_rejoins_under_load_nobody_overtakes_himself(broker: BrokerProcess, topic: Topic) -> None:
    told = divert_under_load(broker, topic)
    assert all(numbers == sorted(numbers) for numbers in told.values())
    assert Divert.objects.count() == 2


def test_without_the_list_of_those_who_stay_he_does(broker: BrokerProcess, topic: Topic) -> None:
    with writing(broker, topic) as writer:
        sent_to(writer, ANN, "1")
        with mock.patch.object(diverting, "users_in", lambda *_: set()):
            divert(broker, topic)
        until(lambda: knows(writer, topic), "the writer to know")
        assert sent_to(writer, ANN, "2") == beside(topic).name
        away = threading.Event()

        def before(batch: Batch) -> None:
            if batch.topic == topic.name and not away.is_set():
                raise OperationalError("the database is away, for the old topic")

        with consuming(Both(topic, before), broker):
            until(lambda: effects() == ["2"], "the one that came later")
            away.set()
            until(lambda: len(effects()) == 2, "both")
    assert effects() == ["2", "1"]


# ── consumed first ───────────────────────────────────────────────────────────────────────────────


def done_before_the_last_of(
    broker: BrokerProcess, topic: Topic, fresh: Topic, handler: Notes, begun: threading.Event, go: threading.Event
) -> int:
    """200 stand in one topic and are being worked on when 60 come into the other: how many of those went before."""
    fill(broker.address, topic, range(200))
    with consuming(handler, broker):
        assert begun.wait(30)
        fill(broker.address, fresh, range(1000, 1060))
        go.set()
        until(lambda: len(effects()) == 260, "everything")
    told = [int(text) for text in effects()]
    return sum(1 for number in told[: max(at for at, number in enumerate(told) if number >= 1000)] if number < 1000)


@pytest.mark.parametrize("goes_first", [True, False])
def test_what_comes_into_the_first_topic_passes_the_backlog_of_the_other(
    broker: BrokerProcess, topic: Topic, monkeypatch: pytest.MonkeyPatch, goes_first: bool
) -> None:
    monkeypatch.setattr(loop, "MOST_RECORDS", 5)
    begun, go = threading.Event(), threading.Event()

    def before(batch: Batch) -> None:
        begun.set()
        assert go.wait(30)

    handler = Both(topic, before)
    if not goes_first:
        del handler.first
    before_the_last = done_before_the_last_of(broker, topic, beside(topic), handler, begun, go)
    assert (before_the_last < 100) is goes_first, before_the_last


def test_the_others_are_not_forgotten_while_the_first_has_something_to_do(
    broker: BrokerProcess, topic: Topic, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(loop, "MOST_RECORDS", 5)
    begun, go = threading.Event(), threading.Event()

    def before(batch: Batch) -> None:
        begun.set()
        assert go.wait(30)

    fill(broker.address, topic, range(20))
    with consuming(Both(topic, before), broker):
        assert begun.wait(30)
        fill(broker.address, beside(topic), range(1000, 1300))
        go.set()
        until(lambda: len(effects()) == 320, "everything")
    told = [int(text) for text in effects()]
    assert max(at for at, number in enumerate(told) if number < 1000) < 200, "the last of the old was not the last"


def test_a_loop_of_one_topic_takes_no_turns(broker: BrokerProcess, topic: Topic) -> None:
    assert Loop(Notes(topic=topic), broker.address, "a")._first == ""


# ── the list ─────────────────────────────────────────────────────────────────────────────────────


def test_the_list_holds_who_is_in_it_and_nobody_else_and_comes_back_from_its_bytes() -> None:
    keys = [b"user%d" % number for number in range(1000)]
    made = Stayers.decode(Stayers(map(mark, keys[:500])).encode())
    assert len(made) == 500
    assert [key in made for key in keys] == [True] * 500 + [False] * 500
    assert ANN not in Stayers(())
