"""Shell: the groups of one partition of `__consumer_offsets` that this broker leads."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator
from functools import partial

from mqcore.clock import Clock
from mqcore.coordination.journal import JournalFault
from mqcore.coordination.partition_journal import UNREADABLE, PartitionJournal, replay
from mqcore.coordination.runner import Runner
from mqcore.groups.commands import ForgetTopic, GroupAnswer, GroupCommand, Phase, Resume
from mqcore.groups.facts import GroupFact, GroupRemoved
from mqcore.groups.machine import GroupMachine
from mqcore.groups.memory import GroupMemory
from mqcore.groups.records import BadRecord, decode, encode
from mqcore.groups.rules import GroupRules
from mqcore.partitions.partition import Partition
from mqcore.wire.errors import ErrorCode
from mqcore.wire.records import Record

log = logging.getLogger(__name__)

GroupRunner = Runner[GroupCommand, GroupFact, GroupAnswer]

RECORDS_PER_STEP = 500  # ~10 ms

LOADING_MEMORY_FACTOR = 2
"""Loading may take so much more memory than groups may hold: a log also has what was deleted since it was written."""


class Resigned(JournalFault):
    """The partition is led by another broker now."""


class LedPartition:
    def __init__(
        self,
        partition: Partition,
        rules: GroupRules,
        clock: Clock,
        topic_exists: Callable[[str], bool],
        memory: GroupMemory | None = None,
        forgotten: Callable[[Partition], None] = lambda partition: None,
    ) -> None:
        self.groups: dict[str, GroupRunner] = {}
        self.unavailable: ErrorCode | None = ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
        self._partition = partition
        self._rules = rules
        self._clock = clock
        self._topic_exists = topic_exists
        self._forgotten = forgotten
        self._memory = memory or GroupMemory(rules.memory_bytes)
        self._records: Iterator[Record] | None = None
        self._machines: dict[str, GroupMachine] = {}  # while they are loaded
        self._set_aside: set[str] = set()
        self.deleted_topics: set[str] = set()  # since the log was written; forgotten when the groups are loaded

    def create(self, group_id: str, machine: GroupMachine | None = None) -> GroupRunner:
        journal = PartitionJournal[GroupFact](self._partition, partial(encode, group_id), self._clock)
        self.groups[group_id] = runner = GroupRunner(
            machine or GroupMachine(self._rules, self._memory),
            journal,
            self._clock,
            partial(self.drop_if_blank, group_id),
        )
        return runner

    def drop_if_blank(self, group_id: str) -> None:
        runner = self.groups.get(group_id)
        if runner is not None and _machine(runner).state.is_blank:
            del self.groups[group_id]
            _machine(runner).release()

    def machines(self) -> list[tuple[str, GroupMachine]]:
        return [(group_id, _machine(runner)) for group_id, runner in self.groups.items()]

    def forget_topic(self, topic: str) -> None:
        """Write tombstones for all offsets of a deleted topic, now or as soon as the groups are known."""
        if self.unavailable is not None:
            self.deleted_topics.add(topic)
            return
        end = self._partition.log.end_offset
        for group_id, machine in self.machines():
            if any(name == topic for name, _ in machine.state.offsets):
                self.groups[group_id].submit(ForgetTopic(topic), partial(self._forgot, group_id, topic))
        if self._partition.log.end_offset > end:
            self._forgotten(self._partition)

    def _forgot(self, group_id: str, topic: str, answer: GroupAnswer | JournalFault) -> None:
        if answer is not ErrorCode.NONE:
            place = {"group": group_id, "topic": topic, "fault": str(answer)}
            log.error("offsets of a deleted topic were not removed", extra=place)

    def is_set_aside(self, group_id: str) -> bool:
        """Whether the group takes more memory than there is, and was not loaded."""
        return group_id in self._set_aside

    def stop(self) -> None:
        self.unavailable = ErrorCode.NOT_COORDINATOR
        self._drop_loading()
        fault = Resigned(f"{self._partition.name} is led by another broker")
        groups, self.groups = self.groups, {}
        for runner in groups.values():
            runner.stop(fault)
            _machine(runner).release()

    # ── loading ──────────────────────────────────────────────────────────────────────────────────

    def load(self, limit: int) -> bool:
        """Read a piece of the log, from its start; True when there is no more to read.

        `limit` bounds the memory of all groups after this partition: its largest groups are not loaded beyond that.
        """
        if self.unavailable is not ErrorCode.COORDINATOR_LOAD_IN_PROGRESS:
            return True
        try:
            if self._records is None:
                log_of = self._partition.log
                self._records = replay(self._partition, log_of.start_offset, log_of.end_offset)
            for _ in range(RECORDS_PER_STEP):
                record = next(self._records, None)
                if record is None:
                    self._loaded(limit)
                    return True
                self._replay(record)
        except UNREADABLE as fault:
            self._cannot_load()
            log.error("groups could not be loaded", extra={"partition": str(self._partition.name), "fault": str(fault)})
            return True
        except Exception:  # the other partitions' groups must load, and these must not seem to be loading for good
            self._cannot_load()
            log.exception("groups could not be loaded", extra={"partition": str(self._partition.name)})
            return True
        return False

    def _cannot_load(self) -> None:
        self.unavailable = ErrorCode.COORDINATOR_NOT_AVAILABLE
        self._drop_loading()

    def _drop_loading(self) -> None:
        machines, self._machines, self._records = self._machines, {}, None
        for machine in machines.values():
            machine.release()

    def _replay(self, record: Record) -> None:
        try:
            found = decode(record.key, record.value)
        except BadRecord as bad:
            place = {"partition": str(self._partition.name), "offset": record.offset, "fault": str(bad)}
            log.error("a group record is malformed and was passed over", extra=place)
            return
        if found is None:
            return
        if found.group_id in self._set_aside:
            if isinstance(found.fact, GroupRemoved):
                self._set_aside.discard(found.group_id)
            return
        machine = self._machines.get(found.group_id)
        if machine is None or machine.state.phase is Phase.DEAD:
            if machine is not None:
                machine.release()
            self._machines[found.group_id] = machine = GroupMachine(self._rules, self._memory)
        machine.apply(found.fact)
        if self._memory.used > LOADING_MEMORY_FACTOR * self._memory.limit:
            self._set_largest_aside(self._memory.limit * 3 // 2)  # with some room, because more records follow

    def _set_largest_aside(self, limit: int) -> None:
        by_size = sorted(self._machines.items(), key=lambda item: item[1].state.held_bytes, reverse=True)
        for group_id, machine in by_size:
            if self._memory.used <= limit:
                break
            del self._machines[group_id]
            machine.release()
            self._set_aside.add(group_id)

    def _loaded(self, limit: int) -> None:
        if self._memory.used > limit:
            self._set_largest_aside(limit)
        for group_id, machine in list(self._machines.items()):
            if not machine.state.is_blank:
                self.create(group_id, self._machines.pop(group_id))
        self._drop_loading()
        self.unavailable = None
        if self._set_aside:
            log.error(
                "groups take more memory than group.memory.max.bytes allows and stay unavailable",
                extra={
                    "partition": str(self._partition.name),
                    "groups": len(self._set_aside),
                    "one_of_them": min(self._set_aside),
                    "limit": self._memory.limit,
                },
            )
        for runner in list(self.groups.values()):
            runner.submit(Resume(), lambda _: None)
        self._forget_deleted_topics()
        if self.groups:
            log.info("groups were loaded", extra={"partition": str(self._partition.name), "groups": len(self.groups)})

    def _forget_deleted_topics(self) -> None:
        """A topic may have been deleted right before the crash; one of the same name must not begin at its offsets."""
        topics = {topic for _, machine in self.machines() for topic, _ in machine.state.offsets}
        for topic in sorted(topics):
            if topic in self.deleted_topics or not self._topic_exists(topic):
                self.forget_topic(topic)
        self.deleted_topics.clear()


def _machine(runner: GroupRunner) -> GroupMachine:
    assert isinstance(runner.machine, GroupMachine)
    return runner.machine
