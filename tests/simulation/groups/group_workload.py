"""A group with random clients, virtual time, a journal that fails and a coordinator that crashes.

The workload knows what must be true: which member owns which partition in which generation, which commits were
acknowledged, and which requests have no answer yet. After every step it compares that with the group:

* a partition has one owner per generation, and members get only what the leader assigned;
* no request is answered twice, and every request is answered once all clients have been silent for long enough;
* the generation never decreases, except for a generation that no member was assigned to;
* an acknowledged commit is read back, also from the next coordinator;
* replaying the kept facts gives the same durable state;
* the shared budget counts exactly the bytes that the group holds, and they never exceed the budget.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from mqcore.coordination.journal import JournalFault
from mqcore.groups.commands import (
    CommitAnswer,
    CommitOffsets,
    DeleteGroup,
    DeleteOffsets,
    ExpireOffsets,
    FetchAnswer,
    FetchOffsets,
    Heartbeat,
    JoinAnswer,
    Leave,
    OffsetToCommit,
    Phase,
    ResumeSessions,
    Sync,
    SyncAnswer,
)
from mqcore.groups.facts import CommittedOffset, GroupRemoved
from mqcore.groups.machine import GroupMachine
from mqcore.groups.memory import offset_bytes
from mqcore.groups.rules import GroupRules
from mqcore.identity import LeaderEpoch, Offset
from mqcore.wire.errors import ErrorCode
from tests.simulation.groups.client import LONG_SILENCE_MS, PARTITIONS, REBALANCE_MS, SESSION_MS, Client, durable_state
from tests.unit.mqcore.groups.group_driver import Group, Reply


@dataclass
class GroupWorkload:
    rules: GroupRules
    clients: list[Client] = field(default_factory=list)
    replies: list[Reply[Any]] = field(default_factory=list)
    owners: dict[tuple[int, int, int], str] = field(default_factory=dict)  # (life, generation, partition) → seat
    acknowledged: dict[int, int] = field(default_factory=dict)  # partition → offset
    unsure: dict[int, set[int | None]] = field(default_factory=dict)  # sent, and not answered yet
    life: int = 0  # incarnation: a deleted group begins again at generation 1
    settled_generation: int = 0
    offset: int = 0
    loaded_bytes: int = 0  # a log may contain more than the budget

    def __post_init__(self) -> None:
        self.group = Group(self.rules)

    # ── clients ────────────────────────────────────────────────────────────────────────────────

    def join(self, client: Client) -> None:
        if client.joining is not None and not client.joining.given:
            return  # it has one connection, and waits for the answer there
        client.syncing, client.settled = None, False
        client.joining = self._owed(
            self.group.join(
                client.member_id,
                instance=client.instance,
                protocols=client.protocols,
                session_ms=SESSION_MS,
                rebalance_ms=REBALANCE_MS,
                requires_issued_id=client.requires_issued_id,
                can_skip=client.requires_issued_id,
            )
        )

    def next_step(self, client: Client) -> None:
        """Read the answer, if there is one, and send the request that the protocol requires next."""
        if client.joining is not None and client.joining.given:
            reply, client.joining = client.joining, None
            self._joined(client, reply)
        elif client.syncing is not None and client.syncing.given:
            reply_to_sync, client.syncing = client.syncing, None
            self._synced(client, reply_to_sync)
        elif client.joining is None and client.syncing is None and not client.settled:
            self.join(client)

    def _joined(self, client: Client, reply: Reply[JoinAnswer]) -> None:
        answer = reply.answers[0]
        if isinstance(answer, JournalFault):
            return
        if answer.error is ErrorCode.MEMBER_ID_REQUIRED:
            client.member_id = answer.member_id
            self.join(client)
        elif answer.error is ErrorCode.NONE:
            client.member_id, client.generation = answer.member_id, answer.generation
            assignments: dict[str, bytes] = {}
            if answer.leader == answer.member_id and not answer.skip_assignment:
                ids = [member_id for member_id, _, _ in answer.members]
                assert client.member_id in ids, "the leader is one of the members"
                for index in PARTITIONS:
                    owner = ids[index % len(ids)]
                    assignments[owner] = assignments.get(owner, b"") + bytes([index])
            else:
                assert answer.skip_assignment or not answer.members, "only the leader gets the members"
            client.syncing_as = (self.life, client.generation, client.seat)
            client.syncing = self._owed(
                self.group.submit(
                    Sync(client.member_id, client.generation, client.instance, assignments=tuple(assignments.items()))
                )
            )
        elif answer.error in (ErrorCode.UNKNOWN_MEMBER_ID, ErrorCode.FENCED_INSTANCE_ID):
            client.forget()

    def _synced(self, client: Client, reply: Reply[SyncAnswer]) -> None:
        answer = reply.answers[0]
        if isinstance(answer, JournalFault):
            return
        if answer.error is ErrorCode.NONE:
            client.settled, client.owned = True, answer.assignment
            for partition in answer.assignment:
                life, generation, seat = client.syncing_as
                owner = self.owners.setdefault((life, generation, partition), seat)
                assert owner == seat, f"{partition} belongs to {owner} and {seat} at once"
        elif answer.error in (ErrorCode.UNKNOWN_MEMBER_ID, ErrorCode.FENCED_INSTANCE_ID):
            client.forget()

    def heartbeat(self, client: Client, generation_off_by: int = 0) -> None:
        generation = client.generation + generation_off_by
        current = self._is_current(client, generation)
        reply = self._owed(self.group.submit(Heartbeat(client.member_id, generation, client.instance)))
        if reply.given and not isinstance(reply.answers[0], JournalFault):
            error = reply.answers[0]
            assert (error in (ErrorCode.NONE, ErrorCode.REBALANCE_IN_PROGRESS)) == current
            if error in (ErrorCode.UNKNOWN_MEMBER_ID, ErrorCode.FENCED_INSTANCE_ID):
                client.forget()
            if error is not ErrorCode.NONE and not generation_off_by:
                client.settled = False

    def commit(self, client: Client | None, partition: int, generation_off_by: int = 0) -> None:
        self.offset += 1
        wanted = OffsetToCommit("orders", partition, Offset(self.offset), LeaderEpoch(0), "")
        member_id = "" if client is None else client.member_id
        generation = -1 if client is None else client.generation + generation_off_by
        instance = None if client is None else client.instance
        allowed = self.group.is_in(Phase.EMPTY) and generation < 0
        if client is not None and not self.group.is_in(Phase.COMPLETING_REBALANCE):
            allowed = allowed or self._is_current(client, generation)
        is_new = ("orders", partition) not in self.group.state.offsets
        fits = not is_new or self.group.memory.fits(offset_bytes("orders", CommittedOffset(wanted.offset)))
        reply = self._owed(self.group.submit(CommitOffsets(member_id, generation, instance, (wanted,))))
        if not reply.given:
            if allowed:
                self.unsure.setdefault(partition, set()).add(self.offset)
        elif isinstance(reply.answers[0], CommitAnswer):
            (error,) = reply.answers[0].errors
            if error is ErrorCode.COORDINATOR_NOT_AVAILABLE and allowed:
                assert not fits, "refused although it fits into the budget"
                return
            assert (error is ErrorCode.NONE) == allowed
            if allowed:
                self.acknowledged[partition] = self.offset
                self.unsure.pop(partition, None)

    def leave(self, client: Client) -> None:
        self._owed(self.group.submit(Leave(((client.member_id, client.instance),))))
        client.forget()

    def restart_client(self, client: Client) -> None:
        """Its process restarts. A static member is recognised by its instance id; any other is a new client."""
        client.forget()
        client.joining = client.syncing = None
        self.join(client)

    def _is_current(self, client: Client, generation: int) -> bool:
        state = self.group.state
        if client.instance is not None and state.instances.get(client.instance) != client.member_id:
            return False
        return client.member_id in state.members and generation == state.generation

    # ── administrators ──────────────────────────────────────────────────────────────────────────

    def delete_group(self) -> None:
        if not self._owed(self.group.submit(DeleteGroup())).given:
            self._all_unsure()

    def delete_offsets(self, partition: int) -> None:
        if self.group.is_in(Phase.EMPTY) and not self.group.state.is_blank:
            reply = self._owed(self.group.submit(DeleteOffsets((("orders", partition),))))
            if reply.given and not isinstance(reply.answers[0], JournalFault):
                self.acknowledged.pop(partition, None)
                self.unsure.pop(partition, None)
            elif not reply.given:
                self.unsure.setdefault(partition, set()).add(None)

    def a_week_passes(self) -> None:
        """By the wall clock only, so offsets of an empty group age and sessions do not."""
        self.group.clock.wall_ahead_ms += self.rules.offsets_retention_ms
        if self.group.is_in(Phase.EMPTY):
            self._all_unsure()
        self._owed(self.group.submit(ExpireOffsets()))

    # ── faults ───────────────────────────────────────────────────────────────────────────────────

    def crash(self, lost: int) -> None:
        """The coordinator crashes and loses up to `lost` facts that were not committed yet."""
        self.group.journal.crash(lost)
        self.group.restart()
        self.group.submit(ResumeSessions())
        self.loaded_bytes = self.group.memory.used
        for client in self.clients:
            client.joining = client.syncing = None  # its connection broke
        self.settled_generation = min(self.settled_generation, self.group.state.generation)

    def break_journal(self, broken: bool) -> None:
        self.group.journal.broken = broken

    def hold_commits(self, held: bool) -> None:
        if held:
            self.group.journal.hold()
        else:
            self.group.journal.release()

    # ── invariants ───────────────────────────────────────────────────────────────────────────────

    def check(self) -> None:
        assert all(len(reply.answers) <= 1 for reply in self.replies), "a request was answered twice"
        self._reset_if_dead()
        assert self.group.state.generation >= self.settled_generation
        self.settled_generation = self.group.state.generation
        self._check_memory()
        self._check_replay()
        self._check_commits()

    def _reset_if_dead(self) -> None:
        """Do what the coordinator does with a removed group."""
        if self.group.is_in(Phase.DEAD):
            assert isinstance(self.group.journal.kept[-1], GroupRemoved)
            self.group.reset()
            self.life += 1
            self.settled_generation = 0
            if self.group.journal.committed == len(self.group.journal.kept):
                self.acknowledged.clear()
                self.unsure.clear()
            else:
                self._all_unsure()

    def _all_unsure(self) -> None:
        for partition in PARTITIONS:
            self.unsure.setdefault(partition, set()).add(None)

    def _check_memory(self) -> None:
        """The budget counts what the group holds; that the group counts correctly is an invariant of the machine."""
        memory, state = self.group.memory, self.group.state
        assert memory.used == state.held_bytes
        assert memory.used <= max(memory.limit, self.loaded_bytes), "the group grew beyond the budget"
        self.loaded_bytes = min(self.loaded_bytes, memory.used)

    def _check_replay(self) -> None:
        copy = GroupMachine(self.rules)
        for fact in self.group.journal.kept:
            if copy.state.phase is Phase.DEAD:
                copy = GroupMachine(self.rules)
            copy.apply(fact)
        if copy.state.phase is Phase.DEAD:
            copy = GroupMachine(self.rules)
        assert copy.state.offsets == self.group.state.offsets
        if self.group.state.phase in (Phase.STABLE, Phase.EMPTY):
            assert durable_state(copy.state) == durable_state(self.group.state)

    def _check_commits(self) -> None:
        reply = self._owed(self.group.submit(FetchOffsets()))
        if not reply.given or not isinstance(reply.answers[0], FetchAnswer):
            return
        found = {index: committed.offset for (_, index), committed in reply.answers[0].offsets.items()}
        for partition in PARTITIONS:
            allowed = {self.acknowledged.get(partition), *self.unsure.get(partition, ())}
            assert found.get(partition) in allowed, f"{partition}: {found.get(partition)}, expected one of {allowed}"

    def fall_silent(self) -> None:
        """All clients stop. After a while every request must be answered, and the group must be empty and idle."""
        self.break_journal(False)
        self.hold_commits(False)
        self.group.advance(LONG_SILENCE_MS)
        assert all(len(reply.answers) == 1 for reply in self.replies), "a request was never answered"
        assert self.group.is_in(Phase.EMPTY)
        assert self.group.clock.next_timer_ms is None
        self.check()

    def trace(self) -> list[object]:
        """All facts in the journal, and all answers in the order of the requests."""
        return [*self.group.journal.kept, *(repr(answer) for reply in self.replies for answer in reply.answers)]

    def _owed(self, reply: Reply[Any]) -> Reply[Any]:
        self.replies.append(reply)
        return reply
