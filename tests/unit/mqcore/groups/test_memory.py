"""One budget of memory for all groups: what is refused when it is used up, and when it is free again."""

from __future__ import annotations

import logging
from collections.abc import Callable
from dataclasses import replace

import pytest

from mqcore.groups.commands import (
    Abandon,
    CommitAnswer,
    CommitOffsets,
    DeleteGroup,
    DeleteOffsets,
    Heartbeat,
    Join,
    JoinAnswer,
    Leave,
    OffsetToCommit,
    Phase,
    Sync,
    SyncAnswer,
)
from mqcore.groups.facts import CommittedOffset
from mqcore.groups.led import LOADING_MEMORY_FACTOR
from mqcore.groups.memory import OFFSET_BYTES, GroupMemory, offset_bytes
from mqcore.groups.rules import UNPROVEN_MS_MAX
from mqcore.identity import LeaderEpoch, Offset
from mqcore.wire.errors import ErrorCode
from tests.unit.mqcore.groups.cast import AT_ONCE, SESSION_MS, Group
from tests.unit.mqcore.groups.office import Heard, Office

KIB = 1024
TIGHT = replace(AT_ONCE, memory_bytes=100 * KIB)
FULL = ErrorCode.COORDINATOR_NOT_AVAILABLE
FINE = CommitAnswer((ErrorCode.NONE,))


def measured(office: Office) -> int:
    return sum(machine.state.held_bytes for led in office.coordinator._led.values() for _, machine in led.machines())


def join(office: Office, group: str, member: str = "", *, size: int = 0, session_ms: int = 10_000) -> Heard[JoinAnswer]:
    protocols = (("range", bytes(size)),)
    fresh = f"member-of-{group}"
    command = Join(member, fresh, None, "client", "/10.0.0.1", session_ms, 60_000, "consumer", protocols)
    return office.submit(group, command)


def commit(office: Office, group: str, *texts: str, first_partition: int = 0) -> CommitAnswer | ErrorCode:
    offsets = tuple(
        OffsetToCommit("orders", first_partition + index, Offset(1), LeaderEpoch(0), text)
        for index, text in enumerate(texts)
    )
    return office.submit(group, CommitOffsets("", -1, None, offsets)).answer


def fill_with_members(office: Office, size: int = 20 * KIB) -> list[str]:
    """Join one group after the other until a join is refused; returns those that were let in."""
    groups: list[str] = []
    while True:
        group = f"large-{len(groups)}"
        answer = join(office, group, size=size, session_ms=1_800_000).answer
        assert isinstance(answer, JoinAnswer)
        if answer.error is not ErrorCode.NONE:
            assert answer.error is FULL
            return groups
        groups.append(group)


def test_all_groups_share_one_budget_and_a_join_that_does_not_fit_is_refused() -> None:
    office = Office(TIGHT)
    groups = fill_with_members(office)
    assert 3 <= len(groups) <= 5
    assert 80 * KIB < office.coordinator.memory.used == measured(office) <= 100 * KIB
    assert office.coordinator.group_count == len(groups)


def test_what_is_refused_is_logged_once_a_minute(caplog: pytest.LogCaptureFixture) -> None:
    office = Office(TIGHT)

    def lines() -> int:
        return sum("memory of groups is used up" in record.message for record in caplog.records)

    with caplog.at_level(logging.WARNING):
        fill_with_members(office)
        for _ in range(10):
            join(office, "late", size=20 * KIB)
        assert lines() == 1
        office.clock.advance(60_000)
        fill_with_members(office, 30 * KIB)
    assert lines() == 2


def test_a_full_budget_stops_no_heartbeat_no_rejoin_no_commit_of_a_known_offset_and_no_departure() -> None:
    office = Office(TIGHT)
    member = office.settle("shop")
    office.commit("notebook", offset=1)
    fill_with_members(office, 5 * KIB)
    while office.coordinator.memory.fits(4 * KIB):
        assert commit(office, "notebook", "", first_partition=measured(office)) == FINE
    assert commit(office, "new", "x" * 4_000) == CommitAnswer((FULL,))
    assert office.submit("shop", Heartbeat(member, 1)).answer is ErrorCode.NONE
    assert office.commit("notebook", offset=2) == FINE
    answer = office.join("shop", member).answer
    assert isinstance(answer, JoinAnswer) and answer.error is ErrorCode.NONE
    synced = office.submit("shop", Sync(member, answer.generation, assignments=((member, b"all"),))).answer
    assert isinstance(synced, SyncAnswer) and synced.error is ErrorCode.NONE
    office.submit("shop", Leave(((member, None),)))
    assert office.coordinator.memory.used == measured(office)


def test_an_assignment_that_does_not_fit_is_refused_and_the_group_goes_on_waiting() -> None:
    office = Office(TIGHT)
    answer = join(office, "shop").answer
    assert isinstance(answer, JoinAnswer)
    refused = office.submit("shop", Sync(answer.member_id, 1, assignments=((answer.member_id, bytes(99 * KIB)),)))
    assert isinstance(refused.answer, SyncAnswer) and refused.answer.error is FULL
    accepted = office.submit("shop", Sync(answer.member_id, 1, assignments=((answer.member_id, b"all"),)))
    assert isinstance(accepted.answer, SyncAnswer) and accepted.answer.error is ErrorCode.NONE


def test_of_a_commit_only_the_offsets_that_do_not_fit_are_refused() -> None:
    office = Office(TIGHT)
    answer = commit(office, "notebook", *["x" * 4_000] * 40)
    assert isinstance(answer, CommitAnswer)
    errors = list(answer.errors)
    assert errors == [ErrorCode.NONE] * errors.count(ErrorCode.NONE) + [FULL] * errors.count(FULL)
    assert 20 <= errors.count(ErrorCode.NONE) <= 24
    assert office.coordinator.memory.used == measured(office) <= 100 * KIB


def test_an_offset_named_twice_in_a_commit_takes_the_room_of_its_last_text() -> None:
    state = Group(replace(AT_ONCE, max_offsets=1))
    twice = tuple(OffsetToCommit("orders", 0, Offset(1), LeaderEpoch(0), text) for text in ("long" * 100, "a"))
    assert state.submit(CommitOffsets("", -1, None, twice)).answer.errors == (ErrorCode.NONE,) * 2
    assert state.state.offsets_bytes == OFFSET_BYTES + len("orders") + 1


def test_a_text_counts_what_python_takes_for_it() -> None:
    plain = offset_bytes("orders", CommittedOffset(Offset(1), metadata="a" * 100))
    assert offset_bytes("orders", CommittedOffset(Offset(1), metadata="😀" * 100)) == plain + 300


Free = Callable[[Office, list[str]], object]


def members_leave(office: Office, groups: list[str]) -> None:
    for group in groups:
        office.submit(group, Leave(((f"member-of-{group}", None),)))


def partitions_move(office: Office, groups: list[str]) -> None:
    for index in list(office.partitions):
        office.coordinator.resign(index)
        office.lead(index)


def time_passes(office: Office, groups: list[str]) -> None:
    """They never synced, so their long sessions do not protect them."""
    office.clock.advance(UNPROVEN_MS_MAX)


@pytest.mark.parametrize("free", [members_leave, partitions_move, time_passes])
def test_memory_of_members_is_free_as_soon_as(free: Free) -> None:
    office = Office(TIGHT)
    before = len(fill_with_members(office))
    free(office, [f"large-{number}" for number in range(before)])
    assert office.coordinator.memory.used == measured(office) < 20 * KIB
    assert len(fill_with_members(office)) == before


def test_memory_of_offsets_is_free_as_soon_as_they_are_deleted() -> None:
    office = Office(TIGHT)
    texts = ["x" * 4_000] * 20
    for delete in (
        lambda: office.submit("notebook", DeleteGroup()),
        lambda: office.submit("notebook", DeleteOffsets(tuple(("orders", index) for index in range(20)))),
        lambda: office.coordinator.topic_deleted("orders"),
        lambda: office.clock.advance(2 * AT_ONCE.offsets_retention_ms),
    ):
        assert commit(office, "notebook", *texts) == CommitAnswer((ErrorCode.NONE,) * 20)
        other = commit(office, "other", *texts)
        assert isinstance(other, CommitAnswer) and FULL in other.errors
        delete()
        office.submit("other", DeleteGroup())
        assert office.coordinator.memory.used == measured(office) < 5 * KIB


def test_requests_of_groups_that_are_not_there_hold_nothing() -> None:
    office = Office(TIGHT)
    for number in range(100):
        office.submit(f"ghost-{number}", Heartbeat("m", 1))
        office.join(f"ghost-{number}", "never-issued")
        office.submit(f"ghost-{number}", Abandon("m"))
    assert (office.coordinator.memory.used, office.coordinator.group_count) == (0, 0)


def test_a_new_member_whose_connection_closes_in_joingroup_is_gone_at_once() -> None:
    rules = replace(TIGHT, initial_rebalance_delay_ms=3_000)
    office = Office(rules)
    waiting = join(office, "shop", size=50 * KIB, session_ms=1_800_000)
    assert not waiting.answers
    office.submit("shop", Abandon("member-of-shop"))
    office.clock.advance(3_000)
    assert office.coordinator.memory.used == measured(office) < 5 * KIB


def test_a_member_that_was_in_a_generation_keeps_its_place_when_its_connection_closes() -> None:
    group = Group()
    leader, _ = group.stable(2)
    waiting = group.join(leader)
    group.submit(Abandon(leader))
    assert not waiting.given
    assert group.is_in(Phase.PREPARING_REBALANCE)
    assert leader in group.state.members


def test_an_issued_id_is_kept_for_a_minute_at_most() -> None:
    group = Group()
    group.join(id_required=True, session_ms=1_800_000)
    group.advance(UNPROVEN_MS_MAX - 1)
    assert group.state.pending
    group.advance(1)
    assert group.state.is_blank


def test_the_session_of_a_member_counts_in_full_once_it_has_synced() -> None:
    group = Group()
    member = group.join(session_ms=600_000).answer.member_id
    group.advance(UNPROVEN_MS_MAX - 1)
    group.sync(member, {member: b"all"})
    group.advance(600_000 - 1)
    assert group.is_in(Phase.STABLE)
    group.advance(1)
    assert group.is_in(Phase.EMPTY)


# ── loading ──────────────────────────────────────────────────────────────────────────────────────────


def test_groups_that_fill_the_budget_are_all_there_after_a_restart() -> None:
    office = Office(TIGHT)
    for number in range(4):
        commit(office, f"group-{number}", *["x" * 4_000] * 5)
    used = office.coordinator.memory.used
    assert used > 80 * KIB
    for _ in range(2):
        office.restart()
        assert office.coordinator.memory.used == used == measured(office)
        assert all(office.committed(f"group-{number}") == 1 for number in range(4))


def test_what_was_deleted_since_does_not_keep_groups_from_loading() -> None:
    office = Office(TIGHT)
    for group in ("a", "b", "c", "d", "e", "f"):
        for _ in range(3):
            commit(office, group, *["x" * 4_000] * 20)
            office.submit(group, DeleteGroup())
    commit(office, "kept", *["x" * 4_000] * 20)
    office.restart()
    assert office.committed("kept") == 1
    assert office.coordinator.memory.used == measured(office)


def test_a_log_with_more_than_the_budget_starts_and_only_its_largest_groups_are_unavailable(
    caplog: pytest.LogCaptureFixture,
) -> None:
    office = Office(replace(AT_ONCE, memory_bytes=1 << 30))
    large = [f"large-{number}" for number in range(10)]
    small = [f"small-{number}" for number in range(10)]
    for group in small[:5]:
        office.commit(group)
    for group in large:
        commit(office, group, *["x" * 4_000] * 15)
    for group in small[5:]:
        office.commit(group)
    office.rules = TIGHT
    with caplog.at_level(logging.ERROR):
        office.restart()
    assert office.coordinator.memory.used == measured(office) <= LOADING_MEMORY_FACTOR * TIGHT.memory_bytes
    assert [office.committed(group) for group in small] == [1] * 10
    refused = [group for group in large if office.submit(group, Heartbeat("m", 1)).answer is FULL]
    assert 0 < len(refused) < len(large)
    assert "groups take more memory than group.memory.max.bytes allows and stay unavailable" in caplog.messages
    office.rules = replace(AT_ONCE, memory_bytes=1 << 30)
    office.restart()
    assert [office.committed(group) for group in large] == [1] * 10


def test_a_group_that_was_deleted_is_available_however_large_it_was() -> None:
    office = Office(replace(AT_ONCE, memory_bytes=1 << 30))
    commit(office, "huge", *["x" * 4_000] * 100)
    office.submit("huge", DeleteGroup())
    commit(office, "huge", "again")
    office.rules = TIGHT
    office.restart()
    assert office.committed("huge") == 1


def test_a_partition_that_is_given_up_while_it_loads_holds_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    office = Office(TIGHT)
    for offset in range(600):
        office.commit("shop", offset=offset)
    office.restart()
    assert office.coordinator.memory.used > 0
    office.coordinator.resign(office.place("shop"))
    office.clock.advance(0)
    assert office.coordinator.memory.used == 0


def test_reductions_fit_into_a_full_budget() -> None:
    memory = GroupMemory(10)
    memory.used = 20
    assert memory.fits(0) and memory.fits(-1)
    assert not memory.fits(1)


def test_sessions_of_known_members_are_not_shortened() -> None:
    group = Group()
    member = group.stable()[0]
    group.advance(SESSION_MS - 1)
    assert group.heartbeat(member) is ErrorCode.NONE
