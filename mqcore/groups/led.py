"""Shell: the groups of one partition of `__consumer_offsets` that this broker leads."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator
from functools import partial

from mqcore.clock import Clock, Timer
from mqcore.coordination.journal import JournalFault
from mqcore.coordination.partition_journal import UNREADABLE, PartitionJournal, replay
from mqcore.coordination.runner import Runner
from mqcore.groups.commands import ForgetTopic, GroupAnswer, GroupCommand, Phase, Resume
from mqcore.groups.facts import GroupFact
from mqcore.groups.machine import GroupMachine
from mqcore.groups.records import BadRecord, decode, encode
from mqcore.groups.rules import GroupRules
from mqcore.partitions.partition import Partition
from mqcore.wire.errors import ErrorCode
from mqcore.wire.records import Record

log = logging.getLogger(__name__)

GroupRunner = Runner[GroupCommand, GroupFact, GroupAnswer]

RECORDS_PER_STEP = 500  # ~10 ms


class Resigned(JournalFault):
    """The partition is led by another broker now."""


class LedPartition:
    def __init__(
        self, partition: Partition, rules: GroupRules, clock: Clock, topic_exists: Callable[[str], bool]
    ) -> None:
        self.groups: dict[str, GroupRunner] = {}
        self.unavailable: ErrorCode | None = ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
        self._partition = partition
        self._rules = rules
        self._clock = clock
        self._topic_exists = topic_exists
        self._step: Timer | None = None

    def create(self, group_id: str, machine: GroupMachine | None = None) -> GroupRunner:
        journal = PartitionJournal[GroupFact](self._partition, partial(encode, group_id), self._clock)
        self.groups[group_id] = runner = GroupRunner(
            machine or GroupMachine(self._rules), journal, self._clock, partial(self.drop_if_blank, group_id)
        )
        return runner

    def drop_if_blank(self, group_id: str) -> None:
        runner = self.groups.get(group_id)
        if runner is not None and _machine(runner).state.is_blank:
            del self.groups[group_id]

    def machines(self) -> list[tuple[str, GroupMachine]]:
        return [(group_id, _machine(runner)) for group_id, runner in self.groups.items()]

    def stop(self) -> None:
        self.unavailable = ErrorCode.NOT_COORDINATOR
        if self._step is not None:
            self._step.cancel()
        fault = Resigned(f"{self._partition.name} is led by another broker")
        groups, self.groups = self.groups, {}
        for runner in groups.values():
            runner.stop(fault)

    # ── loading ──────────────────────────────────────────────────────────────────────────────────

    def load(self) -> None:
        """Read the log from its start; a short one at once, a long one between other work."""
        records = replay(self._partition, self._partition.log.start_offset, self._partition.log.end_offset)
        self._load_some(records, {})

    def _load_some(self, records: Iterator[Record], machines: dict[str, GroupMachine]) -> None:
        self._step = None
        try:
            for _ in range(RECORDS_PER_STEP):
                record = next(records, None)
                if record is None:
                    self._loaded(machines)
                    return
                self._replay(record, machines)
        except UNREADABLE as fault:
            self.unavailable = ErrorCode.COORDINATOR_NOT_AVAILABLE
            log.error("groups could not be loaded", extra={"partition": str(self._partition.name), "fault": str(fault)})
            return
        except Exception:  # the other partitions' groups must load, and these must not seem to be loading for good
            self.unavailable = ErrorCode.COORDINATOR_NOT_AVAILABLE
            log.exception("groups could not be loaded", extra={"partition": str(self._partition.name)})
            return
        self._step = self._clock.call_soon(partial(self._load_some, records, machines))

    def _replay(self, record: Record, machines: dict[str, GroupMachine]) -> None:
        try:
            found = decode(record.key, record.value)
        except BadRecord as bad:
            place = {"partition": str(self._partition.name), "offset": record.offset, "fault": str(bad)}
            log.error("a group record is malformed and was passed over", extra=place)
            return
        if found is None:
            return
        machine = machines.get(found.group_id)
        if machine is None or machine.state.phase is Phase.DEAD:
            machines[found.group_id] = machine = GroupMachine(self._rules)
        machine.apply(found.fact)

    def _loaded(self, machines: dict[str, GroupMachine]) -> None:
        for group_id, machine in machines.items():
            if not machine.state.is_blank:
                self.create(group_id, machine)
        self.unavailable = None
        for runner in list(self.groups.values()):
            runner.submit(Resume(), lambda _: None)
            self._forget_deleted_topics(runner)
        if self.groups:
            log.info("groups were loaded", extra={"partition": str(self._partition.name), "groups": len(self.groups)})

    def _forget_deleted_topics(self, runner: GroupRunner) -> None:
        """A topic may have been deleted right before the crash; one of the same name must not begin at its offsets."""
        for topic in {topic for topic, _ in _machine(runner).state.offsets}:
            if not self._topic_exists(topic):
                runner.submit(ForgetTopic(topic), lambda _: None)


def _machine(runner: GroupRunner) -> GroupMachine:
    assert isinstance(runner.machine, GroupMachine)
    return runner.machine
