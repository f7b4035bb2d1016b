"""The controller over a real log on a disk that crashes: an answer is a promise, and the journal is the truth.

Whatever is asked, and however often the process is killed or the power fails in the middle of it:
* what was answered is there afterwards;
* what is there is the beginning of what was decided, in order, whole decisions only;
* a killed process loses nothing that was appended;
* the controller and the broker's view of the cluster are the same again;
* the log opens by itself: nothing that a crash can do to it looks like corruption.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from random import Random
from typing import Literal
from uuid import UUID

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mqcore.controller import records
from mqcore.controller.commands import ControllerAnswer, ControllerCommand, CreateTopics, NewTopic, RegisterBroker
from mqcore.controller.facts import MetadataFact
from mqcore.controller.machine import ControllerMachine
from mqcore.controller.observer import MetadataObserver
from mqcore.controller.queue import Controller
from mqcore.coordination.journal import JournalFault
from mqcore.coordination.partition_journal import PartitionJournal
from mqcore.disk.memory import Crashed, MemoryDisk, When
from mqcore.identity import BrokerId, LeaderEpoch, Offset, TopicPartition
from mqcore.log.config import LogConfig
from mqcore.log.log import CorruptLog, Log
from mqcore.partitions.partition import Partition
from mqcore.partitions.producers import Producers
from tests.unit.mqcore.controller.cast import ONE_EACH, check_broker
from tests.unit.mqcore.controller.wishes import Wish, seen, wishes
from tests.unit.mqcore.coordination.virtual import VirtualClock

NAME = TopicPartition("__cluster_metadata", 0)
CONFIG = LogConfig(flush_messages=1, retention_ms=-1, segment_bytes=600, index_interval_bytes=100)

Crash = Literal["kill", "power"]


class Journal(PartitionJournal[MetadataFact]):
    """Tells the world what is about to be written, and when it has been."""

    world: World

    def append(self, facts: Sequence[MetadataFact]) -> Offset:
        self.world.decided.append(list(facts))
        end = super().append(facts)
        self.world.appended = len(self.world.decided)
        return end


class World:
    def __init__(self, seed: int) -> None:
        self.disk = MemoryDisk(Random(seed))
        self.decided: list[list[MetadataFact]] = []
        self.appended = 0  # of them, those whose append has returned
        self.promised = 0  # of them, those that an answer rests on
        self._clock = VirtualClock()
        self._random = Random(seed)
        self.start()

    def start(self) -> None:
        self._unsynced: list[Partition] = []
        self.disk.make_directory("")
        log = Log.open(
            self.disk,
            str(NAME),
            CONFIG,
            now_ms=self._clock.wall_ms(),
            clean=False,
            recovery_point=0,
            observer=(producers := Producers()),
        )
        log.sync()
        self.partition = Partition(NAME, UUID(int=1), log, producers, LeaderEpoch(1), self._unsynced.append)
        self.observer = MetadataObserver(self.partition)
        self.observer.follow()
        self.machine = ControllerMachine(ONE_EACH, check_broker)
        for fact in self.observer.replayed():
            self.machine.apply(fact)
        journal = Journal(self.partition, records.encode, self._clock)
        journal.world = self
        self.controller = Controller(self.machine, journal, self._clock)

    def ask(self, command: ControllerCommand) -> None:
        def answered(answer: ControllerAnswer | JournalFault) -> None:
            assert not isinstance(answer, JournalFault)
            self.promised = len(self.decided)

        self.controller.submit(command, answered)

    def flush(self) -> None:
        waiting, self._unsynced[:] = list(self._unsynced), []
        for partition in waiting:
            partition.log.sync()
            partition.synced()

    def restart(self, crash: Crash) -> None:
        self.disk.crash(crash)
        self.start()
        found = list(self.observer.replayed())
        kept, rest = 0, found
        while rest:
            facts = self.decided[kept]
            assert rest[: len(facts)] == facts, "half a decision, or another one"
            kept, rest = kept + 1, rest[len(facts) :]
        while kept < len(self.decided) and not self.decided[kept]:
            kept += 1  # decisions without facts leave no trace
        assert kept >= (self.appended if crash == "kill" else self.promised), "something answered is lost"
        del self.decided[kept:]
        self.appended = self.promised = kept
        self.check()

    def check(self) -> None:
        self.machine.check()
        if not self._unsynced:
            assert seen(self.observer.image) == seen(self.machine.image)

    def new_id(self) -> UUID:
        return UUID(int=self._random.getrandbits(128) | 1)


def register(broker: int) -> RegisterBroker:
    return RegisterBroker(BrokerId(broker), UUID(int=broker), (), None)


whens: st.SearchStrategy[When] = st.sampled_from(["before", "during", "after"])
crashes: st.SearchStrategy[Crash] = st.sampled_from(["kill", "power", "power"])
steps = st.one_of(
    wishes,
    wishes,
    wishes,
    st.just("flush"),
    st.tuples(crashes, st.none()),
    st.tuples(crashes, st.tuples(st.integers(1, 6), whens)),  # during the n-th call to the disk from now
)
Step = Wish | str | tuple[Crash, tuple[int, When] | None]


@settings(max_examples=200, deadline=None)
@given(st.integers(0, 2**32), st.lists(steps, max_size=25))
def test_what_was_answered_survives_every_crash(seed: int, asked: list[Step]) -> None:
    world = World(seed)
    world.ask(register(1))
    coming: Crash = "kill"
    for step in asked:
        try:
            coming = take(world, step, coming)
            world.check()
        except Crashed:
            world.restart(coming)


def take(world: World, step: Step, coming: Crash) -> Crash:
    """One step; the kind of the crash that is to come, if one is under way."""
    if isinstance(step, str):
        world.flush()
    elif isinstance(step, tuple):
        coming, place = step
        if place is None:
            raise Crashed
        world.disk.crash_at(*place)
    else:
        command = step(world.new_id)
        world.ask(register(command) if isinstance(command, int) else command)
    return coming


def test_the_check_would_see_a_lost_answer() -> None:
    """The negative control: a disk that only pretends to sync loses what was promised."""
    lost = 0
    for seed in range(20):
        world = World(seed)
        world.ask(register(1))
        assert world.promised == 0
        world.partition.log.flushed_offset = world.partition.log.end_offset
        world.partition.synced()
        assert world.promised == 1
        try:
            world.restart("power")
        except (AssertionError, CorruptLog):
            lost += 1
    assert lost


def ask_for_many_topics(world: World) -> None:
    for request in range(4):
        names = [f"topic-{request}-{number}" for number in range(40)]
        world.ask(CreateTopics(tuple(NewTopic(name, world.new_id(), 1, 1) for name in names)))


def test_many_requests_at_once_leave_a_log_that_opens_after_a_power_loss() -> None:
    for seed in range(100):
        world = World(seed)
        world.ask(register(1))
        world.flush()
        ask_for_many_topics(world)
        world.flush()
        world.restart("power")


def test_without_the_queue_it_would_not_open(monkeypatch: pytest.MonkeyPatch) -> None:
    """The negative control: several batches that are not durable yet, of which a later one survives an earlier."""

    def at_once(
        self: Controller, command: ControllerCommand, waiter: Callable[[ControllerAnswer | JournalFault], None]
    ) -> None:
        self._runner.submit(command, waiter)

    monkeypatch.setattr(Controller, "submit", at_once)
    corrupt = 0
    for seed in range(50):
        world = World(seed)
        world.ask(register(1))
        world.flush()
        ask_for_many_topics(world)
        try:
            world.restart("power")
        except CorruptLog:
            corrupt += 1
    assert corrupt


def test_a_full_disk_refuses_changes_and_goes_on_when_there_is_room_again() -> None:
    world = World(1)
    world.ask(register(1))
    world.flush()
    before = seen(world.machine.image)
    world.disk.capacity = 0  # less than is used already
    answers: list[ControllerAnswer | JournalFault] = []
    world.controller.submit(register(2), answers.append)
    assert isinstance(answers[0], JournalFault) and seen(world.machine.image) == before
    world.decided.pop()
    world.disk.capacity = None
    world.ask(register(2))
    world.flush()
    assert world.promised == 2
    world.restart("kill")
    assert set(world.observer.image.brokers) == {1, 2}
