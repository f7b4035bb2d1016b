"""Shell: the groups of this broker. Finds the group that a command is for, or the error that says why there is none.

A group lives in one partition of `__consumer_offsets`, and the leader of that partition coordinates it. A group that
never existed and a group that was removed are the same: a machine in its first state. So each command gets a machine,
and one that is still blank afterwards is dropped.
"""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import NamedTuple, cast

from mqcore.groups.commands import (
    A,
    CommandWithAnswer,
    CommitOffsets,
    ExpireOffsets,
    GroupCommand,
    Join,
    Phase,
)
from mqcore.groups.memory import GroupMemory
from mqcore.groups.pending import PendingCommand, PendingCommands
from mqcore.groups.records import partition_of
from mqcore.groups.rules import GroupRules
from mqcore.groups.shard import GroupShard
from mqcore.host import Clock, Timer
from mqcore.identity import OFFSETS_TOPIC, TopicPartition
from mqcore.partitions.partition import Partition
from mqcore.partitions.waiting_requests import CommitOutcome, Committed
from mqcore.wire.errors import ErrorCode

log = logging.getLogger(__name__)

GROUPS_MAX = 20_000
"""Groups of a broker; a join or a commit that would create another one is answered with POLICY_VIOLATION."""
GROUPS_PER_STEP = 500  # ~10 ms
EXPIRED_GROUPS_PER_STEP = 200
"""Groups whose offsets are checked for their age in one turn of the event loop."""
REFUSALS_LOG_INTERVAL_MS = 60_000


class GroupListing(NamedTuple):
    group_id: str
    protocol_type: str
    phase: Phase


class GroupCoordinator:
    """`partition_count` returns how many partitions a topic has; 0 if there is no such topic."""

    def __init__(
        self,
        rules: GroupRules,
        clock: Clock,
        partition_count: Callable[[str], int],
        *,
        expiry_interval_ms: int = 600_000,
        on_topic_forgotten: Callable[[Partition], None] = lambda partition: None,
    ) -> None:
        """`on_topic_forgotten` is called for each partition that got tombstones for the offsets of a deleted topic."""
        self._rules = rules
        self._clock = clock
        self._partition_count = partition_count
        self._expiry_interval_ms = expiry_interval_ms
        self._on_topic_forgotten = on_topic_forgotten
        self._expiry: Timer | None = None
        self.memory = GroupMemory(rules.memory_bytes)
        self._refusals_logged = 0
        self._next_refusal_log_ms = 0
        self._shards: dict[int, GroupShard] = {}
        self._to_load: deque[GroupShard] = deque()
        self._loading: Timer | None = None
        self._offline: dict[int, set[str]] = {}  # partitions without a log, and the topics deleted in the meantime

    # ── leadership ───────────────────────────────────────────────────────────────────────────────

    def lead(self, index: int, partition: Partition) -> None:
        """Take over the groups of a partition, in each term again. They are unavailable until they are loaded from its
        log, in steps. Loading waits until the leader knows the committed end."""
        deleted_topics = self._deleted_topics(index)
        self.resign(index)
        self._shards[index] = shard = GroupShard(
            partition,
            self._rules,
            self._clock,
            lambda topic: self._partition_count(topic) > 0,
            self.memory,
            self._on_topic_forgotten,
        )
        shard.deleted_topics |= deleted_topics
        partition.when_committed_end_known(partial(self._begin_loading, shard))
        if self._expiry is None:
            self._expiry = self._clock.call_later(self._expiry_interval_ms, self._expire)

    def _begin_loading(self, shard: GroupShard, outcome: CommitOutcome) -> None:
        if not isinstance(outcome, Committed):
            shard.cannot_load(outcome)
            return
        self._to_load.append(shard)
        if self._loading is None:
            self._load_step()

    def _load_step(self) -> None:
        """Load one partition after the other, because each needs extra memory for what its log has deleted since.

        A log that another broker wrote may hold more than the budget. Each partition keeps a share for its small
        groups even then, so that all partitions together use at most one and a half budgets.
        """
        self._loading = None
        loaded = 1 + sum(shard.unavailable is None for shard in self._shards.values())
        count = max(loaded, self._partition_count(OFFSETS_TOPIC))
        if self._to_load[0].load_step(self.memory.limit + self.memory.limit * loaded // (2 * count)):
            self._to_load.popleft()
        if self._to_load:
            self._loading = self._clock.call_soon(self._load_step)

    def cannot_lead(self, index: int) -> None:
        """The log of this partition could not be opened: its groups are unavailable, and no other broker has them."""
        deleted_topics = self._deleted_topics(index)
        self.resign(index)
        self._offline[index] = deleted_topics

    def _deleted_topics(self, index: int) -> set[str]:
        """Topics that were deleted while the groups of this partition were not loaded."""
        shard = self._shards.get(index)
        return self._offline.get(index, set()) | (set() if shard is None else shard.deleted_topics)

    def resign(self, index: int) -> None:
        """This broker does not coordinate the groups of the partition any more. Waiting callers get NOT_COORDINATOR."""
        self._offline.pop(index, None)
        shard = self._shards.pop(index, None)
        if shard is not None:
            shard.stop()
        if not self._shards and self._expiry is not None:
            self._expiry.cancel()
            self._expiry = None

    def close(self) -> None:
        for index in list(self._shards):
            self.resign(index)
        self._to_load.clear()
        if self._loading is not None:
            self._loading.cancel()
            self._loading = None

    # ── commands ─────────────────────────────────────────────────────────────────────────────────

    def submit(self, group_id: str, command: CommandWithAnswer[A], on_answer: Callable[[A | ErrorCode], None]) -> None:
        """`on_answer` is called exactly once: with the answer, or with the reason why no group got the command."""
        shard = self._coordinating(group_id)
        if isinstance(shard, ErrorCode):
            on_answer(shard)
            return
        group_command = cast(GroupCommand, command)  # because mypy cannot narrow a protocol
        would_create = isinstance(group_command, Join | CommitOffsets) and group_id not in shard.groups
        if would_create and self.group_count >= GROUPS_MAX:
            on_answer(ErrorCode.POLICY_VIOLATION)
            return
        pending = PendingCommand(command, on_answer)
        shard.submit(group_id, group_command, pending.answer)
        if self.memory.refused > self._refusals_logged:
            self._log_refusals()

    def _log_refusals(self) -> None:
        """At most one line per minute, because refused clients retry often."""
        self._refusals_logged = self.memory.refused
        now_ms = self._clock.now().monotonic_ms
        if now_ms >= self._next_refusal_log_ms:
            self._next_refusal_log_ms = now_ms + REFUSALS_LOG_INTERVAL_MS
            facts = {"used": self.memory.used, "limit": self.memory.limit, "refused": self.memory.refused}
            log.warning("the memory of groups is used up; joins and commits are refused", extra=facts)

    def submit_all(
        self,
        commands: Sequence[tuple[str, CommandWithAnswer[A]]],
        on_answers: Callable[[list[A | ErrorCode]], None],
    ) -> None:
        """Submit a command to each of several groups; `on_answers` gets all answers at once, in their order.

        One request may name very many groups, so a long list is worked off in steps, between other work.
        """
        self._submit_some(commands, PendingCommands(len(commands), on_answers), 0)

    def _submit_some(
        self, commands: Sequence[tuple[str, CommandWithAnswer[A]]], pending: PendingCommands[A], start: int
    ) -> None:
        end = start + GROUPS_PER_STEP
        for index, (group_id, command) in enumerate(commands[start:end], start):
            self.submit(group_id, command, partial(pending.answer, index))
        if end < len(commands):
            self._clock.call_soon(partial(self._submit_some, commands, pending, end))

    def _coordinating(self, group_id: str) -> GroupShard | ErrorCode:
        if len(group_id.encode()) > self._rules.max_name_bytes:
            return ErrorCode.INVALID_GROUP_ID
        count = self._partition_count(OFFSETS_TOPIC)
        index = partition_of(group_id, count) if count else -1
        shard = self._shards.get(index)
        if shard is None:
            return ErrorCode.COORDINATOR_NOT_AVAILABLE if index in self._offline else ErrorCode.NOT_COORDINATOR
        if shard.unavailable is None and shard.is_set_aside(group_id):
            return ErrorCode.COORDINATOR_NOT_AVAILABLE
        return shard.unavailable or shard

    # ── all groups ───────────────────────────────────────────────────────────────────────────────

    @property
    def group_count(self) -> int:
        return sum(len(shard.groups) for shard in self._shards.values())

    def list_groups(self) -> list[GroupListing] | ErrorCode:
        """All groups here, or an error while some are still loading. Groups of an unreadable log are left out."""
        listings = []
        for shard in self._shards.values():
            if shard.unavailable is ErrorCode.COORDINATOR_NOT_AVAILABLE:
                continue
            if shard.unavailable is not None:
                return shard.unavailable
            for group_id, group in shard.groups.items():
                listings.append(GroupListing(group_id, group.state.protocol_type, group.state.phase))
        return listings

    def committed_offsets(self) -> Iterator[tuple[str, TopicPartition, int]]:
        """Every committed offset here: (group, partition, offset)."""
        for shard in self._shards.values():
            for group_id, group in shard.groups.items():
                for (topic, index), committed in group.state.offsets.items():
                    yield group_id, TopicPartition(topic, index), committed.offset

    def topic_deleted(self, topic: str) -> None:
        """Remove the offsets of the topic, because a new topic of the same name starts again at offset 0."""
        for shard in self._shards.values():
            shard.forget_topic(topic)
        for deleted_topics in self._offline.values():
            deleted_topics.add(topic)

    def _expire(self) -> None:
        """Check all groups for expired offsets, a few in each turn of the event loop; repeat after the interval."""
        self._expire_some([group_id for shard in self._shards.values() for group_id in shard.groups])

    def _expire_some(self, group_ids: list[str]) -> None:
        for group_id in group_ids[-EXPIRED_GROUPS_PER_STEP:]:
            self.submit(group_id, ExpireOffsets(), partial(_log_failed_expiry, group_id))
        del group_ids[-EXPIRED_GROUPS_PER_STEP:]
        if group_ids:
            self._expiry = self._clock.call_soon(partial(self._expire_some, group_ids))
        else:
            self._expiry = self._clock.call_later(self._expiry_interval_ms, self._expire)


def _log_failed_expiry(group_id: str, error: ErrorCode) -> None:
    """No client waits for the result, and the next run tries again."""
    if error is not ErrorCode.NONE:
        log.warning("expired offsets were not removed", extra={"group": group_id, "error": error.name})
