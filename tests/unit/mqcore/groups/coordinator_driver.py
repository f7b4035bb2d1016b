"""Drives a coordinator over real partitions. Their logs are on a disk in memory, which survives a restart."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from itertools import count
from typing import Generic
from uuid import UUID

from mqcore.disk.memory import MemoryDisk
from mqcore.groups.commands import (
    A,
    CommandWithAnswer,
    CommitAnswer,
    CommitOffsets,
    Describe,
    Description,
    FetchAnswer,
    FetchOffsets,
    Join,
    JoinAnswer,
    OffsetToCommit,
    Phase,
    Sync,
)
from mqcore.groups.coordinator import GroupCoordinator
from mqcore.groups.records import partition_of
from mqcore.groups.rules import GroupRules
from mqcore.identity import OFFSETS_TOPIC, LeaderEpoch, Offset, TopicPartition
from mqcore.log.log import Log
from mqcore.log.topic_config import LogConfig
from mqcore.partitions.partition import Partition
from mqcore.partitions.producers import Producers
from mqcore.wire.errors import ErrorCode
from tests.unit.mqcore.coordination.virtual import VirtualClock
from tests.unit.mqcore.groups.group_driver import AT_ONCE, RANGE
from tests.unit.mqcore.partitions.helpers import lead_alone

PARTITIONS = 4
OFFSETS_ID = UUID(int=7)


@dataclass(slots=True)
class Heard(Generic[A]):
    answers: list[A | ErrorCode] = field(default_factory=list)

    @property
    def answer(self) -> A | ErrorCode:
        assert len(self.answers) == 1, f"answered {len(self.answers)} times"
        return self.answers[0]


class CoordinatorDriver:
    def __init__(
        self, rules: GroupRules = AT_ONCE, *, partitions: int = PARTITIONS, topics: tuple[str, ...] = ()
    ) -> None:
        self.rules = rules
        self.disk = MemoryDisk()
        self._numbers = count(1)
        self.clock = VirtualClock()
        self.partition_count = partitions
        self.topics = {"orders", "payments", *topics}
        self.open()
        for index in range(partitions):
            self.lead(index)

    def open(self) -> None:
        self.coordinator = GroupCoordinator(
            self.rules,
            self.clock,
            lambda topic: self.partition_count if topic == OFFSETS_TOPIC else topic in self.topics,
        )
        self.partitions: dict[int, Partition] = {}

    def lead(self, index: int) -> None:
        name = TopicPartition(OFFSETS_TOPIC, index)
        if index not in self.partitions:
            self.partitions[index] = open_partition(self.disk, name, self.clock)
        self.coordinator.lead(index, self.partitions[index])

    def restart(self, how: str = "kill") -> None:
        """The process dies, and the next one opens the same folder."""
        self.coordinator.close()
        self.disk.crash(how)  # type: ignore[arg-type]
        self.open()
        for index in range(self.partition_count):
            self.lead(index)

    def place(self, group_id: str) -> int:
        return partition_of(group_id, self.partition_count)

    def submit(self, group_id: str, command: CommandWithAnswer[A]) -> Heard[A]:
        heard: Heard[A] = Heard()
        self.coordinator.submit(group_id, command, heard.answers.append)
        return heard

    def commit(self, group_id: str, topic: str = "orders", offset: int = 1) -> CommitAnswer | ErrorCode:
        wanted = OffsetToCommit(topic, 0, Offset(offset), LeaderEpoch(0), "")
        return self.submit(group_id, CommitOffsets("", -1, None, (wanted,))).answer

    def committed(self, group_id: str, topic: str = "orders") -> int | None:
        answer = self.submit(group_id, FetchOffsets()).answer
        assert isinstance(answer, FetchAnswer), answer
        found = answer.offsets.get((topic, 0))
        return None if found is None else found.offset

    def join(self, group_id: str, member_id: str = "", *, requires_issued_id: bool = False) -> Heard[JoinAnswer]:
        command = Join(
            member_id,
            f"member-{next(self._numbers)}",
            None,
            "client",
            "/10.0.0.1",
            10_000,
            60_000,
            "consumer",
            RANGE,
            requires_issued_id,
        )
        return self.submit(group_id, command)

    def stabilize(self, group_id: str) -> str:
        answer = self.join(group_id).answer
        assert isinstance(answer, JoinAnswer)
        self.submit(group_id, Sync(answer.member_id, answer.generation, assignments=((answer.member_id, b"all"),)))
        return answer.member_id


def open_partition(disk: MemoryDisk, name: TopicPartition, clock: VirtualClock) -> Partition:
    producers = Producers()
    log = Log.open(
        disk,
        str(name),
        LogConfig.from_settings({"cleanup.policy": "compact"}),
        now_ms=clock.wall_ms(),
        clean=False,
        recovery_point=0,
        observer=producers,
    )
    no_sync: Callable[[Partition], None] = lambda partition: None  # noqa: E731
    partition = Partition(name, OFFSETS_ID, log, producers, no_sync)
    lead_alone(partition, LeaderEpoch(1))
    return partition


GROUPS = tuple(f"group-{number}" for number in range(12))
FINE = CommitAnswer((ErrorCode.NONE,))


def phase_of(driver: CoordinatorDriver, group_id: str) -> Phase:
    answer = driver.submit(group_id, Describe()).answer
    assert isinstance(answer, Description)
    return answer.phase
