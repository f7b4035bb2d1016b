"""Shell: the groups of this broker. Finds the machine a command is for, or says why there is none.

A group lives in one partition of `__consumer_offsets`; whoever leads the partition coordinates the group. A group
that nobody has asked for and one that was forgotten are the same thing: a machine in its first state. So every command
gets a machine, and one that is still blank afterwards is dropped again.
"""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import NamedTuple, TypeVar, cast

from mqcore.clock import Clock, Timer
from mqcore.coordination.journal import CommandFailed, FactsTooLarge, JournalFault
from mqcore.groups.commands import (
    Asks,
    CommitOffsets,
    ExpireOffsets,
    GroupAnswer,
    GroupCommand,
    Join,
    Phase,
)
from mqcore.groups.led import LedPartition, Resigned
from mqcore.groups.memory import GroupMemory
from mqcore.groups.records import OFFSETS_TOPIC, partition_of
from mqcore.groups.rules import GroupRules
from mqcore.identity import TopicPartition
from mqcore.partitions.partition import Partition
from mqcore.wire.errors import ErrorCode

log = logging.getLogger(__name__)

A = TypeVar("A")

MAX_GROUPS = 20_000
"""Groups of a broker; a join or a commit of a further one is answered with POLICY_VIOLATION."""
GROUPS_PER_STEP = 500  # ~10 ms
EXPIRED_GROUPS_PER_STEP = 200
"""Groups whose offsets are looked at in one turn of the event loop."""
REFUSALS_LOG_INTERVAL_MS = 60_000


class Listed(NamedTuple):
    group_id: str
    protocol_type: str
    phase: Phase


class GroupCoordinator:
    """`partitions_of` says how many partitions a topic has now; 0 if there is no such topic."""

    def __init__(
        self,
        rules: GroupRules,
        clock: Clock,
        partitions_of: Callable[[str], int],
        *,
        expiry_interval_ms: int = 600_000,
        forgotten: Callable[[Partition], None] = lambda partition: None,
    ) -> None:
        """`forgotten` is told of each partition that got tombstones for the offsets of a deleted topic."""
        self._rules = rules
        self._clock = clock
        self._partitions_of = partitions_of
        self._expiry_interval_ms = expiry_interval_ms
        self._forgotten = forgotten
        self._expiry: Timer | None = None
        self.memory = GroupMemory(rules.memory_bytes)
        self._refused_before = 0
        self._quiet_until_ms = 0
        self._led: dict[int, LedPartition] = {}
        self._to_load: deque[LedPartition] = deque()
        self._loading: Timer | None = None
        self._offline: dict[int, set[str]] = {}  # partitions whose log could not be opened: topics deleted since

    # ── leadership ───────────────────────────────────────────────────────────────────────────────

    def lead(self, index: int, partition: Partition) -> None:
        """Take over the groups of a partition: they are loaded from its log first, a piece at a time."""
        deleted_topics = self._deleted_topics(index)
        self.resign(index)
        self._led[index] = led = LedPartition(
            partition,
            self._rules,
            self._clock,
            lambda topic: self._partitions_of(topic) > 0,
            self.memory,
            self._forgotten,
        )
        led.deleted_topics |= deleted_topics
        self._to_load.append(led)
        if self._loading is None:
            self._load()
        if self._expiry is None:
            self._expiry = self._clock.call_later(self._expiry_interval_ms, self._expire)

    def _load(self) -> None:
        """One partition after the other, so that no more than one holds what its log has deleted since.

        A log that another broker wrote may hold more than the budget. Each partition then still has a share for its
        small groups; all of them together end at one and a half budgets.
        """
        self._loading = None
        loaded = 1 + sum(led.unavailable is None for led in self._led.values())
        count = max(loaded, self._partitions_of(OFFSETS_TOPIC))
        if self._to_load[0].load(self.memory.limit + self.memory.limit * loaded // (2 * count)):
            self._to_load.popleft()
        if self._to_load:
            self._loading = self._clock.call_soon(self._load)

    def cannot_lead(self, index: int) -> None:
        """The log of this partition could not be opened: its groups are unavailable, and no other broker has them."""
        deleted_topics = self._deleted_topics(index)
        self.resign(index)
        self._offline[index] = deleted_topics

    def _deleted_topics(self, index: int) -> set[str]:
        """Topics that were deleted while the groups of this partition were not loaded."""
        led = self._led.get(index)
        return self._offline.get(index, set()) | (set() if led is None else led.deleted_topics)

    def resign(self, index: int) -> None:
        """Somebody else coordinates these groups now, or nobody: all who wait are told to look for it."""
        self._offline.pop(index, None)
        led = self._led.pop(index, None)
        if led is not None:
            led.stop()
        if not self._led and self._expiry is not None:
            self._expiry.cancel()
            self._expiry = None

    def close(self) -> None:
        for index in list(self._led):
            self.resign(index)
        self._to_load.clear()
        if self._loading is not None:
            self._loading.cancel()
            self._loading = None

    # ── commands ─────────────────────────────────────────────────────────────────────────────────

    def submit(self, group_id: str, command: Asks[A], waiter: Callable[[A | ErrorCode], None]) -> None:
        """Ask a group; `waiter` is called exactly once, with its answer or with the reason why it was not asked."""
        led = self._coordinating(group_id)
        if isinstance(led, ErrorCode):
            waiter(led)
            return
        runner = led.groups.get(group_id)
        if runner is None:
            if isinstance(command, Join | CommitOffsets) and self.group_count >= MAX_GROUPS:
                waiter(ErrorCode.POLICY_VIOLATION)
                return
            runner = led.create(group_id)  # for other commands it stays blank and is dropped below

        def answered(answer: GroupAnswer | JournalFault) -> None:
            if isinstance(answer, JournalFault):
                waiter(error_of(answer))
            else:
                waiter(cast(A, answer))

        try:
            runner.submit(cast(GroupCommand, command), answered)
        finally:
            led.drop_if_blank(group_id)
        if self.memory.refused > self._refused_before:
            self._log_refused()

    def _log_refused(self) -> None:
        """At most one line a minute, because clients come again and again."""
        self._refused_before = self.memory.refused
        now_ms = self._clock.now().monotonic_ms
        if now_ms >= self._quiet_until_ms:
            self._quiet_until_ms = now_ms + REFUSALS_LOG_INTERVAL_MS
            facts = {"used": self.memory.used, "limit": self.memory.limit, "refused": self.memory.refused}
            log.warning("the memory of groups is used up; joins and commits are refused", extra=facts)

    def submit_all(
        self, requests: Sequence[tuple[str, Asks[A]]], waiter: Callable[[list[A | ErrorCode]], None]
    ) -> None:
        """Ask several groups; `waiter` gets all answers at once, in the order of the requests.

        A request may name as many groups as fit into it: a long one is gone through between other work.
        """
        answers: list[A | ErrorCode | None] = [None] * len(requests)
        missing = len(requests)
        if not missing:
            waiter([])

        def collect(index: int) -> Callable[[A | ErrorCode], None]:
            def collected(answer: A | ErrorCode) -> None:
                nonlocal missing
                answers[index] = answer
                missing -= 1
                if not missing:
                    waiter(cast(list[A | ErrorCode], answers))

            return collected

        def ask_some(start: int) -> None:
            end = start + GROUPS_PER_STEP
            for index, (group_id, command) in enumerate(requests[start:end], start):
                self.submit(group_id, command, collect(index))
            if end < len(requests):
                self._clock.call_soon(lambda: ask_some(end))

        ask_some(0)

    def _coordinating(self, group_id: str) -> LedPartition | ErrorCode:
        if len(group_id.encode()) > self._rules.max_name_bytes:
            return ErrorCode.INVALID_GROUP_ID
        count = self._partitions_of(OFFSETS_TOPIC)
        index = partition_of(group_id, count) if count else -1
        led = self._led.get(index)
        if led is None:
            return ErrorCode.COORDINATOR_NOT_AVAILABLE if index in self._offline else ErrorCode.NOT_COORDINATOR
        if led.unavailable is None and led.is_set_aside(group_id):
            return ErrorCode.COORDINATOR_NOT_AVAILABLE
        return led.unavailable or led

    # ── all groups ───────────────────────────────────────────────────────────────────────────────

    @property
    def group_count(self) -> int:
        return sum(len(led.groups) for led in self._led.values())

    def list_groups(self) -> list[Listed] | ErrorCode:
        """Every group here; an error if some are not known yet. Groups whose log cannot be read are left out."""
        listed = []
        for led in self._led.values():
            if led.unavailable is ErrorCode.COORDINATOR_NOT_AVAILABLE:
                continue
            if led.unavailable is not None:
                return led.unavailable
            for group_id, machine in led.machines():
                listed.append(Listed(group_id, machine.state.protocol_type, machine.state.phase))
        return listed

    def committed(self) -> Iterator[tuple[str, TopicPartition, int]]:
        """Every committed offset here: (group, partition, offset)."""
        for led in self._led.values():
            for group_id, machine in led.machines():
                for (topic, index), committed in machine.state.offsets.items():
                    yield group_id, TopicPartition(topic, index), committed.offset

    def topic_deleted(self, topic: str) -> None:
        """Offsets of a topic go with it: a new topic of the same name begins at nothing."""
        for led in self._led.values():
            led.forget_topic(topic)
        for deleted_topics in self._offline.values():
            deleted_topics.add(topic)

    def _expire(self) -> None:
        """Look at all groups, a few in each turn of the event loop; then again after the interval."""
        self._expire_some([group_id for led in self._led.values() for group_id in led.groups])

    def _expire_some(self, group_ids: list[str]) -> None:
        for group_id in group_ids[-EXPIRED_GROUPS_PER_STEP:]:
            self.submit(group_id, ExpireOffsets(), _log_refusal(group_id))
        del group_ids[-EXPIRED_GROUPS_PER_STEP:]
        if group_ids:
            self._expiry = self._clock.call_soon(partial(self._expire_some, group_ids))
        else:
            self._expiry = self._clock.call_later(self._expiry_interval_ms, self._expire)


def error_of(fault: JournalFault) -> ErrorCode:
    if isinstance(fault, CommandFailed):
        return ErrorCode.UNKNOWN_SERVER_ERROR
    if isinstance(fault, FactsTooLarge):
        return ErrorCode.POLICY_VIOLATION  # a retry of the same request would fail again
    return ErrorCode.NOT_COORDINATOR if isinstance(fault, Resigned) else ErrorCode.COORDINATOR_NOT_AVAILABLE


def _log_refusal(group_id: str) -> Callable[[ErrorCode], None]:
    """Housekeeping has nobody to answer; the next round tries again."""

    def answered(error: ErrorCode) -> None:
        if error is not ErrorCode.NONE:
            log.warning("offsets were not removed", extra={"group": group_id, "error": error.name})

    return answered
