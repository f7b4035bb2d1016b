"""Machine: one node of the metadata quorum: pull Raft with KRaft's requests, pre-vote and check-quorum.

`decide` reads and returns a `Ready`; the shell persists the election, changes the log, calls `apply`, and only then
sends. So no message leaves before what it relies on is durable. If the disk fails, the shell stops, and another start
continues from the disk.
"""

from __future__ import annotations

from typing import assert_never

from mqcore.identity import BrokerId, LeaderEpoch, Millis
from mqcore.raft import electing, following, leading
from mqcore.raft.messages import (
    BeginQuorumEpochRequest,
    EndQuorumEpochRequest,
    EpochResponse,
    FetchRequest,
    FetchResponse,
    FetchSnapshotRequest,
    FetchSnapshotResponse,
    Ticket,
    VoteRequest,
    VoteResponse,
    VoterKey,
)
from mqcore.raft.ready import (
    Adopt,
    Answered,
    Event,
    LogMoved,
    LogView,
    QuorumRules,
    Ready,
    Received,
    Resign,
    Tick,
    Unanswered,
)
from mqcore.raft.state import (
    Candidate,
    Election,
    Follower,
    Leader,
    Prospective,
    QuorumState,
    Resigned,
    Role,
    Unattached,
    may_follow,
)
from mqcore.raft.view import Random, Rule, View


class Voter:
    """`kept` is the election from the disk, and `high_watermark` an offset that is known to be committed, at least the
    end of the newest snapshot."""

    def __init__(
        self,
        me: VoterKey,
        rules: QuorumRules,
        random: Random,
        kept: Election,
        high_watermark: int,
        now: Millis,
    ) -> None:
        self.me = me
        self._rules = rules
        self._random = random
        role: Role
        if kept.leader is not None and kept.leader != me.id:
            role = Follower(kept.leader, Millis(now + rules.fetch_timeout_ms), retry_at=now)
        else:  # a former leader, too: it may have lost what it had not synced, so it never leads that epoch again
            role = Unattached(now)  # waiting would only delay a start, because pre-votes protect a leader that lives
        self.state = QuorumState(kept, role, high_watermark)

    # ── what the shell asks ──────────────────────────────────────────────────────────────────────

    @property
    def epoch(self) -> LeaderEpoch:
        return self.state.election.epoch

    @property
    def high_watermark(self) -> int:
        return self.state.high_watermark

    @property
    def leader(self) -> BrokerId | None:
        match self.state.role:
            case Leader():
                return self.me.id
            case Follower(leader=leader):
                return leader
            case _:
                return None

    def is_active(self) -> bool:
        """Whether this node leads and its epoch has committed a record: then its log holds everything committed."""
        role = self.state.role
        return isinstance(role, Leader) and leading.is_own_epoch(self.state.high_watermark, role)

    def may_append(self, log: LogView) -> bool:
        """Whether the journal may append its next batch. What it collects meanwhile becomes that batch."""
        return isinstance(self.state.role, Leader) and self.state.alarm is None and leading.may_append(log)

    # ── the machine ──────────────────────────────────────────────────────────────────────────────

    def decide(self, event: Event, log: LogView, now: Millis) -> Ready:
        view = View(self.me, self._rules, self.state, log, now, self._random)
        if self.state.alarm is not None:
            return view.unchanged()
        match event:
            case Received(ticket, request):
                return _answer(view, ticket, request)
            case Answered():
                return _take_response(view, event)
            case Unanswered(_, request):
                return following.lose_request(view, request)
            case LogMoved():
                return _log_moved(view)
            case Tick():
                return _check_deadlines(view)
            case Adopt():
                return leading.adopt(view, event)
            case Resign():
                role = view.state.role
                return leading.resign(view, role) if isinstance(role, Leader) else view.unchanged()
            case _:
                assert_never(event)

    def apply(self, ready: Ready) -> None:
        assert may_follow(self.state, ready.state), f"{self.state} must not become {ready.state}"
        assert ready.state.high_watermark >= self.state.high_watermark
        self.state = ready.state

    def deadline(self, log: LogView) -> Millis | None:
        if self.state.alarm is not None:
            return None
        match self.state.role:
            case Leader() as role:
                view = View(self.me, self._rules, self.state, log, role.elected_at, self._random)
                return leading.next_deadline(view, role)
            case Follower(deadline=deadline, asked=None, retry_at=retry_at) if retry_at is not None:
                return min(deadline, retry_at)
            case role:
                return role.deadline

    def check(self, log: LogView) -> None:
        """The invariants that hold between two decisions."""
        election, role = self.state.election, self.state.role
        assert self.state.high_watermark <= log.end, "a committed record is missing"
        assert log.durable <= log.end
        assert log.last_epoch <= election.epoch, "a record is newer than the epoch that this node has entered"
        match role:
            case Leader():
                assert election.leader == self.me.id and election.voted == self.me
                assert log.last_epoch == election.epoch, "the leader has appended its LeaderChange"
                assert log.voters.get(self.me.id) == self.me
                assert role.epoch_start >= log.start or log.start <= self.state.high_watermark
            case Candidate():
                assert election.voted == self.me and election.leader is None
            case Follower():
                assert election.leader == role.leader != self.me.id
            case Unattached() | Prospective() | Resigned():
                pass
            case _:
                assert_never(role)


def _answer(
    view: View,
    ticket: Ticket,
    request: VoteRequest | BeginQuorumEpochRequest | EndQuorumEpochRequest | FetchRequest | FetchSnapshotRequest,
) -> Ready:
    match request:
        case VoteRequest():
            return electing.answer_vote(view, ticket, request)
        case BeginQuorumEpochRequest():
            return electing.answer_begin(view, ticket, request)
        case EndQuorumEpochRequest():
            return electing.answer_end(view, ticket, request)
        case FetchRequest():
            return _in_epoch_of(view, request, lambda view: leading.answer_fetch(view, ticket, request))
        case FetchSnapshotRequest():
            return _in_epoch_of(view, request, lambda view: leading.answer_fetch_snapshot(view, ticket, request))
        case _:
            assert_never(request)


def _in_epoch_of(view: View, request: FetchRequest | FetchSnapshotRequest, rule: Rule) -> Ready:
    """A configured node that fetches in a newer epoch could never follow this leader, so the epoch has to move."""
    if request.epoch > view.epoch and request.replica.id in view.rules.node_ids:
        return view.following_up(electing.enter_epoch(view, request.epoch), rule)
    return rule(view)


def _take_response(view: View, event: Answered) -> Ready:
    request, response = event.request, event.response
    if response.epoch > view.epoch:
        return electing.learn_leader(view, event.node, response.epoch, response.leader)
    match request, response:
        case VoteRequest(), VoteResponse(leader=None):
            return electing.count_vote(view, event.node, request, response)
        case ((FetchRequest() | FetchSnapshotRequest()), (FetchResponse() | FetchSnapshotResponse())) if isinstance(
            view.state.role, Follower
        ):
            return following.take_response(view, request, response)
        case _, (VoteResponse() | EpochResponse() | FetchResponse() | FetchSnapshotResponse()):
            return electing.learn_leader(view, event.node, response.epoch, response.leader)


def _log_moved(view: View) -> Ready:
    match view.state.role:
        case Leader() as role:
            return leading.log_moved(view, role)
        case Follower() as role:
            return following.fetch(view, role)
        case _:
            return view.unchanged()


def _check_deadlines(view: View) -> Ready:
    match view.state.role:
        case Leader() as role:
            return leading.check_deadlines(view, role)
        case Follower() as role:
            return electing.start_election(view) if view.now >= role.deadline else following.fetch(view, role)
        case role:
            return electing.start_election(view) if view.now >= role.deadline else view.unchanged()
