"""Random histories of one group; hypothesis prints the shortest one that breaks something, and how to replay it.

The controls at the end break the machine on purpose: a simulation that does not notice proves nothing.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import HealthCheck, Phase, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule, run_state_machine_as_test

from mqcore.groups import joining, machine, membership, offsets, rebalancing, records, state
from mqcore.groups.commands import SyncAnswer
from mqcore.groups.facts import GroupFact, Member, OffsetRemoved, SettledMember
from mqcore.groups.membership import fence
from mqcore.groups.memory import GroupMemory
from mqcore.groups.state import GroupState
from mqcore.wire.errors import ErrorCode
from tests.simulation.groups.world import PARTITIONS, PROTOCOLS, Client, World
from tests.unit.mqcore.coordination.virtual import MemoryJournal
from tests.unit.mqcore.groups import cast
from tests.unit.mqcore.groups.cast import AT_ONCE

RULES = (
    replace(AT_ONCE, max_size=6),
    replace(AT_ONCE, initial_rebalance_delay_ms=1_000),
    replace(AT_ONCE, memory_bytes=8_000),  # room for a handful of members and offsets
    replace(AT_ONCE, max_size=3, max_pending=2, new_member_join_timeout_ms=20_000),
)


class GroupHistory(RuleBasedStateMachine):
    @rule(rules=st.sampled_from(RULES))
    @precondition(lambda self: not hasattr(self, "world"))
    def begin(self, rules: Any) -> None:
        self.world = World(rules)

    def pick(self, number: int) -> Client:
        return self.world.clients[number % len(self.world.clients)]

    has_world = precondition(lambda self: hasattr(self, "world"))
    has_clients = precondition(lambda self: hasattr(self, "world") and self.world.clients)

    @has_world
    @rule(
        instance=st.sampled_from([None, None, None, "till-1", "till-2"]),
        protocols=st.sampled_from(PROTOCOLS),
        id_required=st.booleans(),
    )
    def arrive(self, instance: str | None, protocols: Any, id_required: bool) -> None:
        client = Client(len(self.world.clients), instance, protocols, id_required)
        self.world.clients.append(client)
        self.world.join(client)

    @has_clients
    @rule(number=st.integers(0, 7))
    def join_again(self, number: int) -> None:
        self.world.join(self.pick(number))

    @has_clients
    @rule(rounds=st.integers(1, 4))
    def all_go_on(self, rounds: int) -> None:
        for _ in range(rounds):
            for client in list(self.world.clients):
                self.world.go_on(client)

    @has_clients
    @rule(number=st.integers(0, 7))
    def go_on(self, number: int) -> None:
        self.world.go_on(self.pick(number))

    @has_clients
    @rule(number=st.integers(0, 7), off_by=st.sampled_from([0, 0, 0, -1, 1]))
    def heartbeat(self, number: int, off_by: int) -> None:
        self.world.heartbeat(self.pick(number), off_by)

    @has_clients
    @rule()
    def all_heartbeat(self) -> None:
        for client in self.world.clients:
            self.world.heartbeat(client)

    @has_clients
    @rule(number=st.integers(0, 7), partition=st.sampled_from(PARTITIONS), off_by=st.sampled_from([0, 0, 0, -1, 1]))
    def commit(self, number: int, partition: int, off_by: int) -> None:
        self.world.commit(self.pick(number), partition, off_by)

    @has_world
    @rule(partition=st.sampled_from(PARTITIONS))
    def commit_alone(self, partition: int) -> None:
        self.world.commit(None, partition)

    @has_clients
    @rule(number=st.integers(0, 7))
    def leave(self, number: int) -> None:
        self.world.leave(self.pick(number))

    @has_clients
    @rule(number=st.integers(0, 7))
    def restart_client(self, number: int) -> None:
        self.world.restart_client(self.pick(number))

    @has_clients
    @rule(number=st.integers(0, 7))
    def vanish(self, number: int) -> None:
        self.world.clients.remove(self.pick(number))

    @has_world
    @rule(ms=st.sampled_from([1, 500, 1_000, 2_999, 6_000, 12_000, 60_000]))
    def time_passes(self, ms: int) -> None:
        self.world.group.advance(ms)

    @has_world
    @rule()
    def delete_group(self) -> None:
        self.world.delete_group()

    @has_world
    @rule(partition=st.sampled_from(PARTITIONS))
    def delete_offsets(self, partition: int) -> None:
        self.world.delete_offsets(partition)

    @has_world
    @rule()
    def a_week_passes(self) -> None:
        self.world.a_week_passes()

    @has_world
    @rule(lost=st.integers(0, 5))
    def coordinator_crashes(self, lost: int) -> None:
        self.world.crash(lost)

    @has_world
    @rule(broken=st.booleans())
    def journal_breaks(self, broken: bool) -> None:
        self.world.break_journal(broken)

    @has_world
    @rule(held=st.booleans())
    def commits_wait(self, held: bool) -> None:
        self.world.hold_commits(held)

    @has_world
    @invariant()
    def what_the_world_knows_is_true(self) -> None:
        self.world.check()

    def teardown(self) -> None:
        if hasattr(self, "world"):
            self.world.fall_silent()


def search(examples: int, phases: tuple[Phase, ...] = tuple(Phase), *, derandomize: bool = False) -> None:
    run_state_machine_as_test(
        GroupHistory,
        settings=settings(
            max_examples=examples,
            stateful_step_count=60,
            deadline=None,
            phases=phases,
            derandomize=derandomize,
            database=None,
            suppress_health_check=list(HealthCheck),
        ),
    )


def test_no_history_breaks_a_group() -> None:
    search(250)


@pytest.mark.slow
@pytest.mark.timeout(600)
def test_no_history_of_many_breaks_a_group() -> None:
    search(3_000)


# ── negative controls ────────────────────────────────────────────────────────────────────────────────

Break = Callable[[pytest.MonkeyPatch], None]


def any_generation_will_do(patch: pytest.MonkeyPatch) -> None:
    for module in (membership, offsets):
        patch.setattr(module, "fence_generation", lambda state, member, instance, _: fence(state, member, instance))


def a_static_member_is_never_fenced(patch: pytest.MonkeyPatch) -> None:
    def lenient(state: GroupState, member_id: str, instance_id: str | None) -> ErrorCode | None:
        return fence(state, member_id, None) if instance_id is None or instance_id not in state.instances else None

    for module in (membership, joining):
        patch.setattr(module, "fence", lenient)


def who_is_let_go_is_not_told(patch: pytest.MonkeyPatch) -> None:
    for module in (rebalancing, membership, joining):
        patch.setattr(module, "let_go", lambda draft, member, error: None)


def time_does_nothing(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(machine, "tick", lambda draft: None)


def a_member_that_leaves_goes_on_counting(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(state, "member_bytes", lambda member: 1_000)


def the_budget_is_not_asked(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(GroupMemory, "fits", lambda self, growth: True)


def a_group_that_is_gone_gives_nothing_back(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(machine.GroupMachine, "release", lambda self: None)


def everybody_gets_what_the_leader_gets(patch: pytest.MonkeyPatch) -> None:
    def same_for_all(state: GroupState, assignment: bytes) -> SyncAnswer:
        leader = state.members[state.leader or ""]
        return SyncAnswer(ErrorCode.NONE, state.protocol_type, state.protocol, leader.assignment)

    patch.setattr(membership, "_assigned", same_for_all)


def commits_are_only_promised(patch: pytest.MonkeyPatch) -> None:
    real = offsets.commit
    patch.setattr(offsets, "commit", lambda *arguments: ((), real(*arguments)[1]))


def answers_do_not_wait_for_the_commit(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(MemoryJournal, "when_committed", lambda self, end, then: then(None))


def rules_try_their_facts_on_the_state_itself(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(GroupState, "copy", lambda self: self)


def members_that_left_stay_in_the_record(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(GroupState, "_clear_members", lambda self: None)


def removed_offsets_leave_no_tombstone(patch: pytest.MonkeyPatch) -> None:
    real = records.encode

    def forgetful(group_id: str, fact: GroupFact) -> tuple[bytes, bytes | None] | None:
        return None if isinstance(fact, OffsetRemoved) else real(group_id, fact)

    patch.setattr(cast, "encode", forgetful)


def an_older_record_wins(patch: pytest.MonkeyPatch) -> None:
    real = state.restore

    def older(settled: SettledMember, protocol: str, known: Member | None) -> Member:
        return (
            real(settled, protocol, None)
            if known is None
            else replace(known, assignment=settled.assignment, syncing=None)
        )

    patch.setattr(state, "restore", older)


@pytest.mark.parametrize(
    "damage",
    [
        an_older_record_wins,
        any_generation_will_do,
        a_static_member_is_never_fenced,
        who_is_let_go_is_not_told,
        time_does_nothing,
        everybody_gets_what_the_leader_gets,
        commits_are_only_promised,
        answers_do_not_wait_for_the_commit,
        rules_try_their_facts_on_the_state_itself,
        members_that_left_stay_in_the_record,
        removed_offsets_leave_no_tombstone,
        a_member_that_leaves_goes_on_counting,
        the_budget_is_not_asked,
        a_group_that_is_gone_gives_nothing_back,
    ],
)
@pytest.mark.timeout(600)
def test_the_search_notices_when(damage: Break, monkeypatch: pytest.MonkeyPatch) -> None:
    """Hypothesis draws from the constants of all loaded modules, so what it finds first depends on the other tests."""
    damage(monkeypatch)
    with pytest.raises(BaseException) as found:
        search(8_000, phases=(Phase.generate,), derandomize=True)
    assert not isinstance(found.value, KeyboardInterrupt | TypeError | AttributeError)
