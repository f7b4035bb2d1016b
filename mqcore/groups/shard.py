"""Shell: the groups of one partition of `__consumer_offsets` that this broker leads."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator
from functools import partial
from typing import NamedTuple

from mqcore.coordination.journal import JournalFault, LeadershipLost, UnreadableJournal
from mqcore.coordination.partition_journal import PartitionJournal, replay
from mqcore.coordination.runner import OnAnswer, Runner
from mqcore.groups.commands import ForgetTopic, GroupAnswer, GroupCommand, Phase, ResumeSessions
from mqcore.groups.facts import GroupFact, GroupRemoved
from mqcore.groups.machine import GroupMachine
from mqcore.groups.memory import GroupMemory
from mqcore.groups.records import BadRecord, decode, encode
from mqcore.groups.rules import GroupRules
from mqcore.groups.state import GroupState
from mqcore.host import Clock
from mqcore.partitions.partition import Partition
from mqcore.partitions.waiting_requests import NotLeader, StorageFault
from mqcore.wire.errors import ErrorCode
from mqcore.wire.records import Record

log = logging.getLogger(__name__)

RECORDS_PER_STEP = 500  # ~10 ms

LOADING_MEMORY_FACTOR = 2
"""How many budgets of memory loading may use, because a log also holds what was deleted after it was written."""


class Group(NamedTuple):
    machine: GroupMachine
    runner: Runner[GroupCommand, GroupFact, GroupAnswer]

    @property
    def state(self) -> GroupState:
        return self.machine.state


class GroupShard:
    """`unavailable`: the error for all groups of the shard, for example while they are loading; None when they work."""

    def __init__(
        self,
        partition: Partition,
        rules: GroupRules,
        clock: Clock,
        topic_exists: Callable[[str], bool],
        memory: GroupMemory | None = None,
        on_topic_forgotten: Callable[[Partition], None] = lambda partition: None,
    ) -> None:
        self.groups: dict[str, Group] = {}
        self.unavailable: ErrorCode | None = ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
        self.deleted_topics: set[str] = set()  # deleted before the groups were loaded; forgotten afterwards
        self._partition = partition
        self._rules = rules
        self._clock = clock
        self._topic_exists = topic_exists
        self._on_topic_forgotten = on_topic_forgotten
        self._memory = memory or GroupMemory(rules.memory_bytes)
        self._records: Iterator[Record] | None = None
        self._loading: dict[str, GroupMachine] = {}
        self._set_aside: set[str] = set()

    def submit(self, group_id: str, command: GroupCommand, on_answer: OnAnswer[GroupAnswer]) -> None:
        """Run a command on a group. A missing group is created, and dropped again if the command leaves it blank."""
        group = self.groups.get(group_id) or self._create(group_id, GroupMachine(self._rules, self._memory))
        group.runner.submit(command, on_answer)

    def _create(self, group_id: str, machine: GroupMachine) -> Group:
        journal = PartitionJournal[GroupFact](self._partition, partial(encode, group_id), self._clock)
        runner = Runner[GroupCommand, GroupFact, GroupAnswer](
            machine, journal, self._clock, after_step=partial(self.drop_if_blank, group_id)
        )
        self.groups[group_id] = group = Group(machine, runner)
        return group

    def drop_if_blank(self, group_id: str) -> None:
        group = self.groups.get(group_id)
        if group is not None and group.state.is_blank:
            del self.groups[group_id]
            group.machine.release()

    def forget_topic(self, topic: str) -> None:
        """Write tombstones for all offsets of a deleted topic: now, or as soon as the groups are loaded."""
        if self.unavailable is not None:
            self.deleted_topics.add(topic)
            return
        end = self._partition.log.end_offset
        for group_id, group in list(self.groups.items()):
            if any(name == topic for name, _ in group.state.offsets):
                group.runner.submit(ForgetTopic(topic), partial(_log_failed_forgetting, group_id, topic))
        if self._partition.log.end_offset > end:
            self._on_topic_forgotten(self._partition)

    def is_set_aside(self, group_id: str) -> bool:
        """Whether the group was not loaded because it needs more memory than there is."""
        return group_id in self._set_aside

    def stop(self) -> None:
        self.unavailable = ErrorCode.NOT_COORDINATOR
        self._drop_loading()
        fault = LeadershipLost(f"{self._partition.name} is led by another broker")
        groups, self.groups = self.groups, {}
        for group in groups.values():
            group.runner.stop(fault)
            group.machine.release()

    def cannot_load(self, outcome: NotLeader | StorageFault) -> None:
        """The partition stopped serving before its groups could be loaded."""
        has_fault = isinstance(outcome, StorageFault)
        if self.unavailable is ErrorCode.COORDINATOR_LOAD_IN_PROGRESS:
            self.unavailable = ErrorCode.COORDINATOR_NOT_AVAILABLE if has_fault else ErrorCode.NOT_COORDINATOR

    # ── loading ──────────────────────────────────────────────────────────────────────────────────

    def load_step(self, limit: int) -> bool:
        """Load a few records, starting with the oldest. True when loading has ended, successfully or not.

        `limit` bounds the memory of all groups after this partition; the largest groups are set aside beyond that.
        """
        if self.unavailable is not ErrorCode.COORDINATOR_LOAD_IN_PROGRESS:
            return True
        try:
            return self._load_some(limit)
        except UnreadableJournal as fault:
            log.error("groups could not be loaded", extra={"partition": str(self._partition.name), "fault": str(fault)})
        except Exception:  # the groups of other partitions must load, and these must not stay "loading"
            log.exception("groups could not be loaded", extra={"partition": str(self._partition.name)})
        self.unavailable = ErrorCode.COORDINATOR_NOT_AVAILABLE
        self._drop_loading()
        return True

    def _load_some(self, limit: int) -> bool:
        if self._records is None:
            stored = self._partition.log
            self._records = replay(self._partition, stored.start_offset, stored.end_offset)
        for _ in range(RECORDS_PER_STEP):
            record = next(self._records, None)
            if record is None:
                self._finish_loading(limit)
                return True
            self._apply_record(record)
        return False

    def _drop_loading(self) -> None:
        machines, self._loading, self._records = self._loading, {}, None
        for machine in machines.values():
            machine.release()

    def _apply_record(self, record: Record) -> None:
        try:
            found = decode(record.key, record.value)
        except BadRecord as bad:
            place = {"partition": str(self._partition.name), "offset": record.offset, "fault": str(bad)}
            log.error("a malformed group record was skipped", extra=place)
            return
        if found is None:
            return
        if found.group_id in self._set_aside:
            if isinstance(found.fact, GroupRemoved):
                self._set_aside.discard(found.group_id)
            return
        machine = self._loading.get(found.group_id)
        if machine is None or machine.state.phase is Phase.DEAD:
            if machine is not None:
                machine.release()
            self._loading[found.group_id] = machine = GroupMachine(self._rules, self._memory)
        machine.apply(found.fact)
        if self._memory.used > LOADING_MEMORY_FACTOR * self._memory.limit:
            self._set_largest_aside(self._memory.limit * 3 // 2)  # leaves space, because more records follow

    def _set_largest_aside(self, limit: int) -> None:
        by_size = sorted(self._loading.items(), key=lambda item: item[1].state.held_bytes, reverse=True)
        for group_id, machine in by_size:
            if self._memory.used <= limit:
                break
            del self._loading[group_id]
            machine.release()
            self._set_aside.add(group_id)

    def _finish_loading(self, limit: int) -> None:
        if self._memory.used > limit:
            self._set_largest_aside(limit)
        for group_id, machine in list(self._loading.items()):
            if not machine.state.is_blank:
                self._create(group_id, self._loading.pop(group_id))
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
        for group in list(self.groups.values()):
            group.runner.submit(ResumeSessions(), lambda _: None)
        self._forget_deleted_topics()
        if self.groups:
            log.info("groups were loaded", extra={"partition": str(self._partition.name), "groups": len(self.groups)})

    def _forget_deleted_topics(self) -> None:
        """A topic may have been deleted right before a crash; a new topic of that name must not get its offsets."""
        topics = {topic for group in self.groups.values() for topic, _ in group.state.offsets}
        for topic in sorted(topics):
            if topic in self.deleted_topics or not self._topic_exists(topic):
                self.forget_topic(topic)
        self.deleted_topics.clear()


def _log_failed_forgetting(group_id: str, topic: str, answer: GroupAnswer | JournalFault) -> None:
    if answer is not ErrorCode.NONE:
        place = {"group": group_id, "topic": topic, "fault": str(answer)}
        log.error("offsets of a deleted topic were not removed", extra=place)
