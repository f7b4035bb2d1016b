"""Drives one group in virtual time, with the consumers that send it requests.

`Group` runs the machine as the broker does, and checks its invariants after every step.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Generic

from mqcore.coordination.journal import JournalFault
from mqcore.coordination.runner import Runner
from mqcore.groups.commands import (
    A,
    CommandWithAnswer,
    CommitAnswer,
    CommitOffsets,
    FetchOffsets,
    GroupAnswer,
    GroupCommand,
    Heartbeat,
    Join,
    JoinAnswer,
    Leave,
    LeaveAnswer,
    OffsetToCommit,
    Phase,
    Sync,
    SyncAnswer,
)
from mqcore.groups.facts import CommittedOffset, GroupFact, Protocols
from mqcore.groups.machine import GroupMachine
from mqcore.groups.memory import GroupMemory
from mqcore.groups.records import decode, encode
from mqcore.groups.rules import GroupRules
from mqcore.groups.state import GroupState
from mqcore.identity import LeaderEpoch, Offset
from mqcore.wire.errors import ErrorCode
from mqcore.wire.primitives import Writer
from tests.unit.mqcore.coordination.virtual import MemoryJournal, VirtualClock

AT_ONCE = GroupRules(initial_rebalance_delay_ms=0)
SESSION_MS = 10_000
REBALANCE_MS = 60_000


def subscription(*topics: str, user_data: bytes = b"") -> bytes:
    """A ConsumerProtocolSubscription, version 0."""
    writer = Writer()
    writer.int16(0)
    writer.array(topics, writer.string)
    writer.binary(user_data)
    return writer.finish()


RANGE: Protocols = (("range", subscription("orders")),)


@dataclass(slots=True)
class Reply(Generic[A]):
    """The answers to one request; more than one would be an error."""

    answers: list[A | JournalFault] = field(default_factory=list)

    @property
    def given(self) -> bool:
        return bool(self.answers)

    @property
    def answer(self) -> A:
        assert len(self.answers) == 1, f"answered {len(self.answers)} times"
        answer = self.answers[0]
        assert not isinstance(answer, JournalFault), answer
        return answer


class Group:
    def __init__(self, rules: GroupRules = AT_ONCE, group_id: str = "shop") -> None:
        self.rules = rules
        self.group_id = group_id
        self.clock = VirtualClock()
        self.journal = MemoryJournal[GroupFact](lambda fact: encode(group_id, fact) is not None)
        self.memory = GroupMemory(rules.memory_bytes)
        self.machine = GroupMachine(rules, self.memory)
        self.reset()
        self._ids = 0

    def reset(self) -> None:
        """Replace the machine, as the coordinator does with a removed group."""
        self.machine.release()
        self.machine = GroupMachine(self.rules, self.memory)
        self._runner: Runner[GroupCommand, GroupFact, GroupAnswer] = Runner(
            self.machine, self.journal, self.clock, self.machine.check
        )

    def without_checks(self) -> None:
        """For tests that count how many members a command works through."""
        self._runner = Runner(self.machine, self.journal, self.clock)

    @property
    def state(self) -> GroupState:
        return self.machine.state

    def is_in(self, phase: Phase) -> bool:
        return self.state.phase is phase

    def submit(self, command: CommandWithAnswer[A]) -> Reply[A]:
        reply: Reply[A] = Reply()
        self._runner.submit(command, reply.answers.append)  # type: ignore[arg-type]
        return reply

    def advance(self, ms: int) -> None:
        self.clock.advance(ms)

    def restart(self) -> None:
        """The coordinator crashes, and the next one loads the kept facts through the codec."""
        self._runner.stop(JournalFault("crashed"))
        self.reset()
        for fact in self.journal.kept:
            if self.is_in(Phase.DEAD):
                self.reset()
            pair = encode(self.group_id, fact)
            assert pair is not None
            record = decode(*pair)
            assert record is not None and record == (self.group_id, fact)
            self.machine.apply(record.fact)
        self.machine.check()

    # ── consumers ────────────────────────────────────────────────────────────────────────────────

    def join(
        self,
        member_id: str = "",
        *,
        instance: str | None = None,
        protocols: Protocols = RANGE,
        protocol_type: str = "consumer",
        session_ms: int = SESSION_MS,
        rebalance_ms: int = REBALANCE_MS,
        requires_issued_id: bool = False,
        can_skip: bool = False,
    ) -> Reply[JoinAnswer]:
        self._ids += 1
        command = Join(
            member_id,
            f"{instance or 'member'}-{self._ids}",
            instance,
            "client",
            "/10.0.0.1",
            session_ms,
            rebalance_ms,
            protocol_type,
            protocols,
            requires_issued_id,
            can_skip,
        )
        return self.submit(command)

    def sync(
        self,
        member_id: str,
        assignments: dict[str, bytes] | None = None,
        *,
        generation: int | None = None,
        instance: str | None = None,
    ) -> Reply[SyncAnswer]:
        generation = self.state.generation if generation is None else generation
        return self.submit(Sync(member_id, generation, instance, assignments=tuple((assignments or {}).items())))

    def heartbeat(self, member_id: str, generation: int | None = None, *, instance: str | None = None) -> ErrorCode:
        generation = self.state.generation if generation is None else generation
        return self.submit(Heartbeat(member_id, generation, instance)).answer

    def leave(self, *members: str | tuple[str, str | None]) -> LeaveAnswer:
        pairs = tuple((member, None) if isinstance(member, str) else member for member in members)
        return self.submit(Leave(pairs)).answer

    def commit(
        self,
        member_id: str = "",
        generation: int = -1,
        *,
        topic: str = "orders",
        partition: int = 0,
        offset: int = 1,
        metadata: str = "",
        retention_ms: int | None = None,
        instance: str | None = None,
    ) -> CommitAnswer:
        wanted = OffsetToCommit(topic, partition, Offset(offset), LeaderEpoch(3), metadata)
        return self.submit(CommitOffsets(member_id, generation, instance, (wanted,), retention_ms)).answer

    def committed(self, topic: str = "orders", partition: int = 0) -> CommittedOffset | None:
        return self.submit(FetchOffsets(((topic, partition),))).answer.offsets.get((topic, partition))

    def stable(self, members: int = 1, *, instances: tuple[str, ...] = (), protocols: Protocols = RANGE) -> list[str]:
        """A stable group of this many dynamic members, or of these static ones. Returns their ids, the leader first."""
        names: list[str | None] = [*instances] or [None] * members
        first = self.join(protocols=protocols, instance=names[0])
        others = [self.join(protocols=protocols, instance=name) for name in names[1:]]
        ids = [first.answer.member_id]
        if others:
            self.join(ids[0], instance=names[0], protocols=protocols)
        ids += [reply.answer.member_id for reply in others]
        for member_id in reversed(ids):
            self.sync(member_id, {name: name.encode() for name in ids})
        assert self.is_in(Phase.STABLE)
        assert self.state.leader == ids[0]
        return ids

    def rejoin(self, *members: str) -> list[Reply[JoinAnswer]]:
        return [self.join(member) for member in members]
