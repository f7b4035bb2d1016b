"""Machine: what every rule of the quorum reads, and how it states its decision."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from mqcore.identity import BrokerId, LeaderEpoch, Millis
from mqcore.raft.messages import FetchResponse, VoterKey
from mqcore.raft.ready import Answer, LogChange, LogView, QuorumRules, Ready, Send
from mqcore.raft.state import Election, Follower, Leader, QuorumState, Role
from mqcore.wire.errors import ErrorCode

Rule = Callable[["View"], Ready]

Random = Callable[[], float]
"""Draws a number from [0, 1)."""


class View(NamedTuple):
    """One moment of one voter."""

    me: VoterKey
    rules: QuorumRules
    state: QuorumState
    log: LogView
    now: Millis
    random: Random

    @property
    def epoch(self) -> LeaderEpoch:
        return self.state.election.epoch

    @property
    def leader(self) -> BrokerId | None:
        """The leader that this node is or follows now. One that resigned or timed out does not count."""
        match self.state.role:
            case Leader():
                return self.me.id
            case Follower(leader=leader, deadline=deadline) if self.now < deadline:
                return leader
            case _:
                return None

    @property
    def peers(self) -> tuple[VoterKey, ...]:
        return tuple(key for key in self.log.voters.values() if key != self.me)

    def after(self, ms: float) -> Millis:
        return Millis(self.now + int(ms))

    def election_deadline(self) -> Millis:
        """Random, so that two voters rarely stand at the same time."""
        return self.after(self.rules.election_timeout_ms * (1 + self.random()))

    def step(
        self,
        role: Role,
        election: Election | None = None,
        *,
        high_watermark: int | None = None,
        alarm: str | None = None,
        log: LogChange | None = None,
        sends: tuple[Send, ...] = (),
        answers: tuple[Answer, ...] = (),
    ) -> Ready:
        """The decision to take `role`, persisting `election` if it is another one. A leader that steps down refuses
        the fetches that wait for it."""
        before = self.state
        election = election or before.election
        if isinstance(before.role, Leader) and not isinstance(role, Leader):
            refusal = FetchResponse(ErrorCode.NOT_LEADER_OR_FOLLOWER, election.epoch, None)
            answers = (*(Answer(fetch.ticket, refusal) for fetch in before.role.waiting), *answers)
        watermark = before.high_watermark if high_watermark is None else high_watermark
        state = QuorumState(election, role, watermark, alarm or before.alarm)
        return Ready(state, election if election != before.election else None, log, sends, answers)

    def unchanged(self, *, answers: tuple[Answer, ...] = ()) -> Ready:
        return self.step(self.state.role, answers=answers)

    def following_up(self, first: Ready, rule: Rule) -> Ready:
        """The decision `first`, and then what `rule` decides on the state it leads to."""
        second = rule(self._replace(state=first.state))
        assert first.log is None or second.log is None, "one decision changes the log at most once"
        return Ready(
            second.state,
            second.persist or first.persist,
            first.log or second.log,
            first.sends + second.sends,
            first.answers + second.answers,
        )
