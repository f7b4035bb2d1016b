"""Many groups of one coordinator under random requests, restarts and moves of partitions.

After every event the used budget must equal the bytes of all groups, computed again from members and offsets, and must
not exceed its limit. The seed of a history repeats it.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any

import pytest

from mqcore.groups.commands import (
    AbandonJoin,
    CommandWithAnswer,
    CommitOffsets,
    DeleteGroup,
    DeleteOffsets,
    Describe,
    Description,
    FetchOffsets,
    Heartbeat,
    Join,
    Leave,
    OffsetToCommit,
    Sync,
)
from mqcore.groups.facts import CommittedOffset
from mqcore.groups.machine import GroupMachine
from mqcore.groups.memory import GROUP_BYTES, count_member_bytes, count_offset_bytes
from mqcore.groups.shard import GroupShard
from mqcore.groups.state import GroupState
from mqcore.identity import LeaderEpoch, Offset
from tests.unit.mqcore.groups.coordinator_driver import PARTITIONS, CoordinatorDriver
from tests.unit.mqcore.groups.group_driver import AT_ONCE

RULES = AT_ONCE._replace(memory_bytes=64 * 1024, initial_rebalance_delay_ms=500)
GROUPS = tuple(f"group-{number}" for number in range(9))
TOPICS = ("orders", "payments")
EVENTS = 250


def counted_again(state: GroupState) -> int:
    return (
        GROUP_BYTES + count_member_bytes(state.members.values(), state.issued_ids) + count_offset_bytes(state.offsets)
    )


class MemoryWorkload:
    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)
        self.driver = CoordinatorDriver(RULES)
        self.numbers = 0
        self.trace: list[object] = []  # every command, and every answer when it is given

    def run(self, events: int = EVENTS) -> int:
        """The number of refused commands."""
        refused = 0
        choices: list[tuple[int, Callable[[], None]]] = [
            (8, self.join),
            (8, self.commit),
            (4, self.send_member_command),
            (2, self.send_administrator_command),
            (2, lambda: self.driver.clock.advance(self.random.choice([1, 500, 5_000, 60_000]))),
            (1, self.driver.restart),
            (1, self.move_partition),
            (1, lambda: self.driver.coordinator.topic_deleted(self.random.choice(TOPICS))),
            (1, self.let_a_week_pass),
        ]
        weights, actions = [weight for weight, _ in choices], [action for _, action in choices]
        for _ in range(events):
            before = self.driver.coordinator.memory.refused
            (action,) = self.random.choices(actions, weights)
            action()
            self.check()
            refused += max(0, self.driver.coordinator.memory.refused - before)
        return refused

    def check(self) -> None:
        coordinator = self.driver.coordinator
        machines = [group.machine for shard in coordinator._shards.values() for group in shard.groups.values()]
        for machine in machines:
            machine.check()
        assert coordinator.memory.used == sum(counted_again(machine.state) for machine in machines)
        assert coordinator.memory.used <= coordinator.memory.limit
        assert not any(machine.state.is_blank for machine in machines), "a blank group was not dropped"

    # ── events ───────────────────────────────────────────────────────────────────────────────────

    def submit(self, group: str, command: CommandWithAnswer[Any]) -> None:
        self.trace.append((group, command))
        self.driver.coordinator.submit(group, command, self.trace.append)

    def join(self) -> None:
        self.numbers += 1
        group = self.random.choice(GROUPS)
        member = self.random.choice(["", "", *self.members(group)])
        instance = self.random.choice([None, None, "till"])
        protocols = (("range", bytes(self.random.choice([10, 1_000, 9_000]))),)
        session_ms = self.random.choice([6_000, 1_800_000])
        requires_issued_id = self.random.random() < 0.5
        fresh = f"member-{self.numbers}"
        self.submit(
            group,
            Join(
                member,
                fresh,
                instance,
                "client",
                "/10.0.0.1",
                session_ms,
                6_000,
                "consumer",
                protocols,
                requires_issued_id,
            ),
        )

    def commit(self) -> None:
        offsets = tuple(
            OffsetToCommit(self.random.choice(TOPICS), self.random.randrange(9), Offset(1), LeaderEpoch(0), text)
            for text in self.random.choices(["", "x" * 500, "ä" * 900], k=self.random.randrange(1, 6))
        )
        self.submit(self.random.choice(GROUPS), CommitOffsets("", -1, None, offsets))

    def members(self, group: str) -> list[str]:
        described = self.driver.submit(group, Describe()).answer
        return [member.member_id for member in described.members] if isinstance(described, Description) else []

    def send_member_command(self) -> None:
        group = self.random.choice(GROUPS)
        state = self.state(group)
        member = self.random.choice([*self.members(group), "ghost"])
        generation = 0 if state is None else state.generation
        parts = tuple((each, bytes(self.random.choice([1, 3_000]))) for each in self.members(group))
        commands: list[CommandWithAnswer[Any]] = [
            Sync(member, generation, assignments=parts),
            Sync(member, generation, "till", assignments=parts),
            Heartbeat(member, generation),
            Leave(((member, None),)),
            Leave((("", "till"),)),
            AbandonJoin(member),
            FetchOffsets(),
        ]
        self.submit(group, self.random.choice(commands))

    def state(self, group: str) -> GroupState | None:
        shard = self.driver.coordinator._shards[self.driver.place(group)]
        return shard.groups[group].state if group in shard.groups else None

    def send_administrator_command(self) -> None:
        places = tuple((topic, number) for topic in TOPICS for number in range(9))
        commands: list[CommandWithAnswer[Any]] = [DeleteGroup(), DeleteOffsets(places), DeleteOffsets(places[:1])]
        self.submit(self.random.choice(GROUPS), self.random.choice(commands))

    def move_partition(self) -> None:
        index = self.random.randrange(PARTITIONS)
        self.driver.coordinator.resign(index)
        self.check()
        self.driver.lead(index)

    def let_a_week_pass(self) -> None:
        self.driver.clock.wall_ahead_ms += RULES.offsets_retention_ms
        self.driver.clock.advance(600_000)


def test_the_used_budget_equals_the_bytes_of_all_groups_after_every_event() -> None:
    refused = [MemoryWorkload(seed).run() for seed in range(6)]
    assert sum(refused) > 25, "the budget is never used up, so its limit is not tested"


def test_the_same_seed_gives_the_same_trace_and_another_seed_another_one() -> None:
    def trace(seed: int) -> list[object]:
        workload = MemoryWorkload(seed)
        workload.run()
        return workload.trace

    first = trace(1)
    assert first and first == trace(1)
    assert first != trace(2)


def dropped_groups_keep_their_memory(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(GroupMachine, "release", lambda self: None)


def blank_groups_are_not_dropped(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(GroupShard, "drop_if_blank", lambda self, group_id: None)


def removed_offsets_are_still_counted(patch: pytest.MonkeyPatch) -> None:
    real = GroupState._set_offset

    def keep(self: GroupState, place: tuple[str, int], committed: CommittedOffset | None) -> None:
        before = self.offsets_bytes
        real(self, place, committed)
        self.offsets_bytes = max(before, self.offsets_bytes)

    patch.setattr(GroupState, "_set_offset", keep)


@pytest.mark.parametrize(
    "defect", [dropped_groups_keep_their_memory, blank_groups_are_not_dropped, removed_offsets_are_still_counted]
)
def test_the_simulation_finds_this_defect(
    defect: Callable[[pytest.MonkeyPatch], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    defect(monkeypatch)
    with pytest.raises(AssertionError):
        for seed in range(5):
            MemoryWorkload(seed).run()
