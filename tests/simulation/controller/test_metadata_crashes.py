"""The controller over a real log on a disk that crashes. Answers must survive, and the journal decides what is true.

Random commands run while the process is killed or the power fails. After each crash:
* every answered command is still there;
* the log contains the first decisions, in order and complete;
* a killed process has lost nothing that was appended;
* the controller and the broker have the same image of the cluster;
* the log opens without an operator, because no crash leaves damage that looks like corruption.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from random import Random
from typing import Literal
from uuid import UUID

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mqcore.controller.cluster_commands import RegisterBroker
from mqcore.controller.commands import ControllerAnswer, ControllerCommand, CreateTopics, NewTopic
from mqcore.controller.facts import ControllerActivated, ControllerFact, MetadataFact, SessionFact
from mqcore.controller.machine import ControllerMachine
from mqcore.controller.observer import MetadataJournal, MetadataObserver
from mqcore.controller.queue import Controller
from mqcore.coordination.journal import JournalFault
from mqcore.disk.memory import Crashed, MemoryDisk, When
from mqcore.identity import BrokerId, Offset
from mqcore.log.errors import CorruptLog
from mqcore.log.topic_config import LogConfig
from mqcore.raft.voter import Voter
from mqcore.wire.records import OWN_BATCH_BYTES_MAX
from tests.unit.mqcore.controller.cluster_driver import ONE_EACH
from tests.unit.mqcore.controller.random_commands import RandomCommand, cluster_state, random_commands
from tests.unit.mqcore.coordination.virtual import VirtualClock
from tests.unit.mqcore.raft.lone_quorum import LoneQuorum, committed_facts

CONFIG = LogConfig(retention_ms=-1, segment_bytes=600, index_interval_bytes=100, file_delete_delay_ms=0)

Crash = Literal["kill", "power"]


class Journal(MetadataJournal):
    """Records for the workload which decision is about to be written, and that it was written."""

    workload: MetadataWorkload

    def append(self, facts: Sequence[ControllerFact]) -> Offset:
        self.workload.decided.append([fact for fact in facts if not isinstance(fact, SessionFact)])
        end = super().append(facts)
        self.workload.appended = len(self.workload.decided)
        return end


class MetadataWorkload:
    def __init__(self, seed: int) -> None:
        self.disk = MemoryDisk(Random(seed))
        self.decided: list[list[MetadataFact]] = []
        self.appended = 0  # how many of them were appended
        self.promised = 0  # how many of them an answer rests on
        self._clock = VirtualClock()
        self._random = Random(seed)
        self.start()

    def start(self) -> None:
        self._clock.drop_timers()
        self._lone = LoneQuorum(self.disk, self._clock, CONFIG)
        self.quorum = self._lone.quorum
        self.observer = MetadataObserver(self.quorum, self._clock)
        self.observer.start()
        self._lone.lead()
        self.next_turn()
        self.machine = ControllerMachine(ONE_EACH)
        for fact in self.observer.image.facts():
            self.machine.apply(fact)
        end = Offset(self.quorum.log.end_offset)
        self.machine.apply(ControllerActivated(self.quorum.epoch, end, self._clock.now().monotonic_ms))
        journal = Journal(self.observer, self._clock, OWN_BATCH_BYTES_MAX)
        journal.workload = self
        self.controller = Controller(self.machine, journal, self._clock)

    def submit(self, command: ControllerCommand) -> None:
        def answered(answer: ControllerAnswer | JournalFault) -> None:
            assert not isinstance(answer, JournalFault)
            self.promised = len(self.decided)

        self.controller.submit(command, answered)

    def flush(self) -> None:
        self._lone.sync()
        self.next_turn()

    def next_turn(self) -> None:
        """The observer runs outside the commit, in the next turn of the event loop."""
        self._clock.advance(0)

    def restart(self, crash: Crash) -> None:
        self.disk.crash(crash)
        self.start()
        found = list(committed_facts(self.quorum))
        kept, rest = 0, found
        while rest:
            facts = self.decided[kept]
            assert rest[: len(facts)] == facts, "an incomplete or unknown decision"
            kept, rest = kept + 1, rest[len(facts) :]
        while kept < len(self.decided) and not self.decided[kept]:
            kept += 1  # decisions without facts leave no trace
        assert kept >= (self.appended if crash == "kill" else self.promised), "an answered command is lost"
        del self.decided[kept:]
        self.appended = self.promised = kept
        self.check()

    def check(self) -> None:
        self.machine.check()
        assert self.machine.sessions.next_offset == self.quorum.log.end_offset, "broker epochs are offsets"
        if not self._lone.requested:
            assert cluster_state(self.observer.image) == cluster_state(self.machine.image)

    def new_id(self) -> UUID:
        return UUID(int=self._random.getrandbits(128) | 1)


def register(broker: int) -> RegisterBroker:
    return RegisterBroker(BrokerId(broker), UUID(int=broker), (), None, is_only_broker=True)


whens: st.SearchStrategy[When] = st.sampled_from(["before", "during", "after"])
crashes: st.SearchStrategy[Crash] = st.sampled_from(["kill", "power", "power"])
steps = st.one_of(
    random_commands,
    random_commands,
    random_commands,
    st.just("flush"),
    st.tuples(crashes, st.none()),
    st.tuples(crashes, st.tuples(st.integers(1, 6), whens)),  # during the n-th call to the disk from now
)
Step = RandomCommand | str | tuple[Crash, tuple[int, When] | None]


@settings(max_examples=200, deadline=None)
@given(st.integers(0, 2**32), st.lists(steps, max_size=25))
def test_every_answered_command_survives_every_crash(seed: int, asked: list[Step]) -> None:
    workload = MetadataWorkload(seed)
    workload.submit(register(1))
    next_crash: Crash = "kill"
    for step in asked:
        try:
            next_crash = take_step(workload, step, next_crash)
            workload.check()
        except Crashed:
            workload.restart(next_crash)


def take_step(workload: MetadataWorkload, step: Step, next_crash: Crash) -> Crash:
    """Take one step. Returns the kind of the next crash, if a step has scheduled one."""
    if isinstance(step, str):
        workload.flush()
    elif isinstance(step, tuple):
        next_crash, place = step
        if place is None:
            raise Crashed
        workload.disk.crash_at(*place)
    else:
        command = step(workload.new_id)
        workload.submit(register(command) if isinstance(command, int) else command)
    return next_crash


def test_the_same_seed_gives_the_same_log_and_another_seed_another_one() -> None:
    def log_of(seed: int) -> list[list[MetadataFact]]:
        random, workload = Random(seed), MetadataWorkload(seed)
        workload.submit(register(1))
        for number in range(30):
            names = [f"topic-{number}-{index}" for index in range(random.randrange(1, 4))]
            workload.submit(CreateTopics(tuple(NewTopic(name, workload.new_id(), 1, 1) for name in names)))
            if random.random() < 0.3:
                workload.flush()
            if random.random() < 0.2:
                workload.restart(random.choice(["kill", "power"]))
        return workload.decided

    first = log_of(1)
    assert len(first) > 3 and log_of(1) == first
    assert log_of(2) != first


def test_the_workload_notices_a_lost_answer() -> None:
    """The negative control: a sync that does nothing loses answered commands."""
    lost = 0
    for seed in range(20):
        workload = MetadataWorkload(seed)
        workload.submit(register(1))
        assert workload.promised == 0
        workload.quorum.log.flushed_offset = workload.quorum.log.end_offset
        workload.quorum.on_synced()
        workload.next_turn()
        assert workload.promised == 1
        try:
            workload.restart("power")
        except (AssertionError, CorruptLog):
            lost += 1
    assert lost


def ask_for_many_topics(workload: MetadataWorkload) -> None:
    for request in range(4):
        names = [f"topic-{request}-{number}" for number in range(40)]
        workload.submit(CreateTopics(tuple(NewTopic(name, workload.new_id(), 1, 1) for name in names)))


def test_many_queued_requests_leave_a_log_that_opens_after_a_power_loss() -> None:
    for seed in range(100):
        workload = MetadataWorkload(seed)
        workload.submit(register(1))
        workload.flush()
        ask_for_many_topics(workload)
        workload.flush()
        workload.restart("power")


@pytest.fixture
def no_queue(monkeypatch: pytest.MonkeyPatch) -> None:
    """Commands are decided while the records of earlier ones wait for their sync."""

    def decide_immediately(
        self: Controller, command: ControllerCommand, waiter: Callable[[ControllerAnswer | JournalFault], None]
    ) -> None:
        self._runner.submit(command, waiter)

    monkeypatch.setattr(Controller, "submit", decide_immediately)


def corrupt_logs(seeds: int) -> int:
    corrupt = 0
    for seed in range(seeds):
        workload = MetadataWorkload(seed)
        workload.submit(register(1))
        workload.flush()
        ask_for_many_topics(workload)
        try:
            workload.restart("power")
        except CorruptLog:
            corrupt += 1
    return corrupt


@pytest.mark.usefixtures("no_queue")
def test_even_without_the_queue_the_quorum_has_one_batch_in_flight() -> None:
    assert corrupt_logs(50) == 0


@pytest.mark.usefixtures("no_queue")
def test_with_several_batches_in_flight_the_log_would_not_open(monkeypatch: pytest.MonkeyPatch) -> None:
    """The negative control: a later batch can survive while an earlier one is lost."""
    monkeypatch.setattr(Voter, "may_append", lambda self, log: True)
    assert corrupt_logs(50)


def test_a_full_disk_rejects_changes_until_there_is_space_again() -> None:
    workload = MetadataWorkload(1)
    workload.submit(register(1))
    workload.flush()
    before = cluster_state(workload.machine.image)
    workload.disk.capacity = 0  # less than is used
    answers: list[ControllerAnswer | JournalFault] = []
    workload.controller.submit(register(2), answers.append)
    assert isinstance(answers[0], JournalFault) and cluster_state(workload.machine.image) == before
    workload.decided.pop()
    workload.disk.capacity = None
    workload.submit(register(2))
    workload.flush()
    assert workload.promised == 2
    workload.restart("kill")
    assert set(workload.observer.image.brokers) == {1, 2}
