"""Many groups of one coordinator under random requests, restarts and moves: the budget counts what there is.

After every event the budget is what all groups together hold, counted again from members and offsets, and it never
grows beyond its limit. A history is repeated by its seed.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from mqcore.groups.commands import (
    Abandon,
    Asks,
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
from mqcore.groups.led import LedPartition
from mqcore.groups.machine import GroupMachine
from mqcore.groups.memory import GROUP_BYTES, measured, measured_offsets
from mqcore.groups.state import GroupState
from mqcore.identity import LeaderEpoch, Offset
from tests.unit.mqcore.groups.cast import AT_ONCE
from tests.unit.mqcore.groups.office import PARTITIONS, Office

RULES = replace(AT_ONCE, memory_bytes=64 * 1024, initial_rebalance_delay_ms=500)
GROUPS = tuple(f"group-{number}" for number in range(9))
TOPICS = ("orders", "payments")
EVENTS = 250


def counted_again(state: GroupState) -> int:
    return GROUP_BYTES + measured(state.members.values(), state.pending) + measured_offsets(state.offsets)


class World:
    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)
        self.office = Office(RULES)
        self.numbers = 0

    def run(self, events: int = EVENTS) -> int:
        """The number of refused commands."""
        refused = 0
        choices: list[tuple[int, Callable[[], None]]] = [
            (8, self.join),
            (8, self.commit),
            (4, self.member_acts),
            (2, self.administrator_acts),
            (2, lambda: self.office.clock.advance(self.random.choice([1, 500, 5_000, 60_000]))),
            (1, self.office.restart),
            (1, self.partition_moves),
            (1, lambda: self.office.coordinator.topic_deleted(self.random.choice(TOPICS))),
            (1, self.a_week_passes),
        ]
        weights, acts = [weight for weight, _ in choices], [act for _, act in choices]
        for _ in range(events):
            before = self.office.coordinator.memory.refused
            (act,) = self.random.choices(acts, weights)
            act()
            self.check()
            refused += max(0, self.office.coordinator.memory.refused - before)
        return refused

    def check(self) -> None:
        coordinator = self.office.coordinator
        machines = [machine for led in coordinator._led.values() for _, machine in led.machines()]
        for machine in machines:
            machine.check()
        assert coordinator.memory.used == sum(counted_again(machine.state) for machine in machines)
        assert coordinator.memory.used <= coordinator.memory.limit
        assert not any(machine.state.is_blank for machine in machines), "a blank group stays behind"

    # ── events ───────────────────────────────────────────────────────────────────────────────────

    def submit(self, group: str, command: Asks[Any]) -> None:
        self.office.coordinator.submit(group, command, lambda answer: None)

    def join(self) -> None:
        self.numbers += 1
        group = self.random.choice(GROUPS)
        member = self.random.choice(["", "", *self.members(group)])
        instance = self.random.choice([None, None, "till"])
        protocols = (("range", bytes(self.random.choice([10, 1_000, 9_000]))),)
        session_ms = self.random.choice([6_000, 1_800_000])
        id_required = self.random.random() < 0.5
        fresh = f"member-{self.numbers}"
        self.submit(
            group,
            Join(member, fresh, instance, "client", "/10.0.0.1", session_ms, 6_000, "consumer", protocols, id_required),
        )

    def commit(self) -> None:
        offsets = tuple(
            OffsetToCommit(self.random.choice(TOPICS), self.random.randrange(9), Offset(1), LeaderEpoch(0), text)
            for text in self.random.choices(["", "x" * 500, "ä" * 900], k=self.random.randrange(1, 6))
        )
        self.submit(self.random.choice(GROUPS), CommitOffsets("", -1, None, offsets))

    def members(self, group: str) -> list[str]:
        described = self.office.submit(group, Describe()).answer
        return [member.member_id for member in described.members] if isinstance(described, Description) else []

    def member_acts(self) -> None:
        group = self.random.choice(GROUPS)
        state = self.state(group)
        member = self.random.choice([*self.members(group), "ghost"])
        generation = 0 if state is None else state.generation
        parts = tuple((each, bytes(self.random.choice([1, 3_000]))) for each in self.members(group))
        acts: list[Asks[Any]] = [
            Sync(member, generation, assignments=parts),
            Sync(member, generation, "till", assignments=parts),
            Heartbeat(member, generation),
            Leave(((member, None),)),
            Leave((("", "till"),)),
            Abandon(member),
            FetchOffsets(),
        ]
        self.submit(group, self.random.choice(acts))

    def state(self, group: str) -> GroupState | None:
        led = self.office.coordinator._led[self.office.place(group)]
        return dict(led.machines())[group].state if group in led.groups else None

    def administrator_acts(self) -> None:
        places = tuple((topic, number) for topic in TOPICS for number in range(9))
        acts: list[Asks[Any]] = [DeleteGroup(), DeleteOffsets(places), DeleteOffsets(places[:1])]
        self.submit(self.random.choice(GROUPS), self.random.choice(acts))

    def partition_moves(self) -> None:
        index = self.random.randrange(PARTITIONS)
        self.office.coordinator.resign(index)
        self.check()
        self.office.lead(index)

    def a_week_passes(self) -> None:
        self.office.clock.wall_ahead_ms += RULES.offsets_retention_ms
        self.office.clock.advance(600_000)


def test_the_budget_is_what_all_groups_hold_after_every_event() -> None:
    refused = [World(seed).run() for seed in range(6)]
    assert sum(refused) > 25, "the budget has to be reached for its limit to mean something"


def releases_nothing(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(GroupMachine, "release", lambda self: None)


def forgets_to_drop_blank_groups(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(LedPartition, "drop_if_blank", lambda self, group_id: None)


def counts_no_removed_offset(patch: pytest.MonkeyPatch) -> None:
    real = GroupState._keep_offset

    def keep(self: GroupState, place: tuple[str, int], committed: object) -> None:
        before = self.offsets_bytes
        real(self, place, committed)  # type: ignore[arg-type]
        self.offsets_bytes = max(before, self.offsets_bytes)

    patch.setattr(GroupState, "_keep_offset", keep)


@pytest.mark.parametrize("damage", [releases_nothing, forgets_to_drop_blank_groups, counts_no_removed_offset])
def test_it_is_noticed_when_the_coordinator(
    damage: Callable[[pytest.MonkeyPatch], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    damage(monkeypatch)
    with pytest.raises(AssertionError):
        for seed in range(5):
            World(seed).run()
